// Redis: the process, and its own counts.

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
)

// A redis is a Redis of this run.
type redis struct {
	pid  int
	addr string
}

// startRedis starts a Redis that has each transaction in its file before it answers, as a volume
// needs it.
func (j *juice) startRedis() error {
	listen, err := freePort()
	if err != nil {
		return err
	}
	dir, err := j.dir("redis")
	if err != nil {
		return err
	}
	cmd := exec.Command("redis-server", "--port", listen, "--bind", "127.0.0.1", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction")
	if err := j.b.start(cmd); err != nil {
		return err
	}
	j.redis = &redis{cmd.Process.Pid, "127.0.0.1:" + listen}
	return j.b.await("redis-server", j.redis.addr)
}

// url names a database as JuiceFS does.
func (r *redis) url(database int) string { return fmt.Sprintf("redis://%s/%d", r.addr, database) }

// info is what INFO answers.
func (r *redis) info() (string, error) {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "INFO everything\r\n"); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	head, err := in.ReadString('\n') // a bulk string: $ and its length
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil {
		return "", fmt.Errorf("INFO: %q", head)
	}
	body := make([]byte, n)
	_, err = io.ReadFull(in, body)
	return string(body), err
}

// counts are the commands that clients have sent, but for INFO, and the bytes that its data has in
// memory.
func (r *redis) counts() (commands, memory float64, err error) {
	info, err := r.info()
	if err != nil {
		return 0, 0, err
	}
	commands, memory, ok := parseInfo(info)
	if !ok {
		return 0, 0, fmt.Errorf("INFO without counts: %.200q", info)
	}
	return commands, memory, nil
}

// parseInfo reads an answer to INFO.
func parseInfo(info string) (commands, memory float64, ok bool) {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case key == "used_memory":
			memory, _ = strconv.ParseFloat(value, 64)
		case strings.HasPrefix(key, "cmdstat_") && key != "cmdstat_info":
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			n, _ := strconv.ParseFloat(calls, 64)
			commands += n
		}
	}
	return commands, memory, memory > 0
}
