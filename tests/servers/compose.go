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

// contained starts the service of compose.yaml, which stays for the next run, and waits until it answers.
func contained(ctx context.Context, kind Kind, e engine) (*Server, error) {
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := exec.CommandContext(probe, "docker", "info").Run(); err != nil { // the client alone is not enough
		return nil, errNoDocker
	}
	service := strings.ToLower(string(kind))
	if _, err := compose(ctx, "up", "--detach", service); err != nil {
		return nil, err
	}
	address, err := compose(ctx, "port", service, e.port)
	if err != nil {
		return nil, err
	}
	s := &Server{kind: kind, engine: e, admin: e.admin(address)}
	return s, s.identify(ctx, startPatience)
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
