package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func rabbitmq() engine {
	return engine{
		variable: "FIRSTTIME_TEST_AMQP",
		install:  "apt-get install rabbitmq-server",
		port:     "5672",
		admin:    func(address string) string { return "amqp://guest:guest@" + address + "/" },
		probe:    probeRabbitMQ,
		prepare:  prepareRabbitMQ,
	}
}

func probeRabbitMQ(ctx context.Context, url string) (product, version string, err error) {
	patience := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(patience)})
	if err != nil {
		return "", "", err
	}
	product, _ = conn.Properties["product"].(string)
	version, _ = conn.Properties["version"].(string)
	return product, version, conn.Close()
}

func prepareRabbitMQ(ctx context.Context, dir string, port int) (command, error) {
	server, err := program(ctx, findRabbitMQ, "rabbitmq-server")
	if err != nil {
		return command{}, err
	}
	distribution, err := freePort()
	if err != nil {
		return command{}, err
	}
	names, stopNames, err := startPortMapper(dir)
	if err != nil {
		return command{}, err
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return command{
		path: server,
		args: []string{"-noinput"},
		env: []string{
			"HOME=" + dir, // where Erlang keeps its cookie
			"ERL_EPMD_PORT=" + strconv.Itoa(names),
			"RABBITMQ_NODENAME=firsttime@localhost",
			"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
			"RABBITMQ_NODE_PORT=" + strconv.Itoa(port),
			"RABBITMQ_DIST_PORT=" + strconv.Itoa(distribution),
			"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
			"RABBITMQ_MNESIA_BASE=" + at("mnesia"),
			"RABBITMQ_LOG_BASE=" + at("log"),
			"RABBITMQ_LOGS=-",
			"RABBITMQ_PID_FILE=" + at("pid"),
			// None of these exists: the machine's own must not apply.
			"RABBITMQ_CONF_ENV_FILE=" + at("rabbitmq-env.conf"),
			"RABBITMQ_CONFIG_FILE=" + at("rabbitmq.conf"),
			"RABBITMQ_ADVANCED_CONFIG_FILE=" + at("advanced.config"),
			"RABBITMQ_ENABLED_PLUGINS_FILE=" + at("enabled_plugins"),
			// The script becomes the server, instead of waiting for it: the server is what is to be killed,
			// and what the kernel ends with this process.
			"RABBITMQ_ALLOW_INPUT=1",
		},
		stop:    syscall.SIGTERM,
		release: stopNames,
	}, nil
}

// findRabbitMQ prefers the program itself to Debian's wrapper in PATH, which changes the user.
func findRabbitMQ() (string, error) {
	if path, err := find("/usr/lib/rabbitmq/bin/rabbitmq-server"); err == nil {
		return path, nil
	}
	return find("rabbitmq-server")
}

// startPortMapper starts Erlang's port mapper for one node. A node without one starts a daemon that would
// outlive it and that all nodes of the machine share.
func startPortMapper(dir string) (port int, stop func(), err error) {
	path, err := find("epmd", "/usr/lib/erlang/erts-*/bin/epmd")
	if err != nil {
		return 0, nil, err
	}
	port, err = freePort()
	if err != nil {
		return 0, nil, err
	}
	cmd := exec.Command(path, "-port", strconv.Itoa(port), "-address", "127.0.0.1")
	cmd.Dir = dir
	isolate(cmd, nil)
	if err := startBound(cmd); err != nil {
		return 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, stop, conn.Close()
		}
	}
	stop()
	return 0, nil, errors.New("epmd does not answer")
}
