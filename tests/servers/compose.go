package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

//go:embed compose.yaml
var composeFile string

var errNoDocker = errors.New("no Docker engine answers")

// composed starts the service of compose.yaml and returns the DSN of its administrator.
func composed(ctx context.Context, kind Kind) (admin string, err error) {
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := exec.CommandContext(probe, "docker", "info").Run(); err != nil {
		return "", errNoDocker
	}
	service := strings.ToLower(string(kind))
	if _, err := compose(ctx, "up", "--detach", service); err != nil {
		return "", err
	}
	port := "3306"
	if kind == Postgres {
		port = "5432"
	}
	address, err := compose(ctx, "port", service, port)
	if err != nil {
		return "", err
	}
	if kind == Postgres {
		return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", address), nil
	}
	return fmt.Sprintf("root@tcp(%s)/", address), nil
}

func compose(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"compose", "--file", "-"}, args...)...)
	cmd.Stdin = strings.NewReader(composeFile)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker compose %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
