// Redis: the process, and its counters.

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

// A redis is the run's Redis.
type redis struct {
	pid  int
	addr string
}

// startRedis starts a Redis that writes each transaction to its file before it replies, as a volume
// requires.
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

// url returns a database's URL for JuiceFS.
func (r *redis) url(database int) string { return fmt.Sprintf("redis://%s/%d", r.addr, database) }

// info returns the reply to INFO.
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

// counts returns the number of clients' commands except INFO, and the memory of the data in bytes.
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

// parseInfo parses a reply to INFO.
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
