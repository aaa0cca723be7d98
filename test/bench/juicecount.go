// The group that counts the cost of a call for the server, Redis and the object storage, with one
// server and with several.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

const (
	countCalls = 4000 // per kind and client
	countDepth = 8
)

// serverCounts are the numbers of concurrent servers.
var serverCounts = []int{1, 2, 3}

// A used has the resources used so far.
type used struct {
	server, redis float64 // µs
	commands      float64
	stored        float64 // bytes of all objects
}

func (j *juice) used(servers []*server) (u used, err error) {
	for _, s := range servers {
		t, err := cpuTime(s.pid)
		if err != nil {
			return u, err
		}
		u.server += t
	}
	if u.redis, err = cpuTime(j.redis.pid); err != nil {
		return u, err
	}
	if u.commands, _, err = j.redis.counts(); err != nil {
		return u, err
	}
	u.stored, err = bytesBelow(j.objects)
	return u, err
}

// bytesBelow returns the total size of a tree's files. Files may be removed concurrently.
func bytesBelow(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return ignoreMissing(err)
	})
	return sum, err
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// A callsProc is a process that makes calls. end waits for the process and joins its error with the
// given error.
type callsProc struct {
	in  io.Writer
	out *bufio.Reader
	end func(error) error
}

// startCalls starts a process and waits until it is ready to make calls.
func startCalls(ctx context.Context, kind, url string, n int) (*callsProc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "_calls", kind, strconv.Itoa(n), strconv.Itoa(countDepth), url)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, out, end, err := machine.Start(cmd)
	if err != nil {
		return nil, err
	}
	p := &callsProc{in, bufio.NewReader(out), func(err error) error {
		if e := end(); e != nil || err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[1:], " "), errors.Join(err, e), bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	}}
	if _, err := p.out.ReadString('\n'); err != nil {
		return nil, p.end(err)
	}
	return p, nil
}

// calls makes each server's client make calls of a kind, all concurrently. It adds the total rate
// per second under at, and per call: /server and /redis CPU time in µs, /commands of Redis, and
// /stored bytes of objects.
func (j *juice) calls(ctx context.Context, at, kind string, servers []*server, n int) (err error) {
	var procs []*callsProc
	for i, s := range servers {
		p, err := startCalls(ctx, kind, s.url("nfsrdma", fmt.Sprintf("calls%d", i)), n)
		if err != nil {
			return err
		}
		procs = append(procs, p)
	}
	before, err := j.used(servers)
	if err != nil {
		return err
	}
	for _, p := range procs {
		if _, err := io.WriteString(p.in, "\n"); err != nil {
			return p.end(err)
		}
	}
	longest := 0.0
	for _, p := range procs {
		var d done
		if err := p.end(json.NewDecoder(p.out).Decode(&d)); err != nil {
			return err
		}
		longest = max(longest, d.Seconds)
	}
	pids := map[string]int{"redis": j.redis.pid}
	for i, s := range servers {
		pids[strconv.Itoa(i)] = s.pid
	}
	if _, err := awaitIdle(ctx, pids); err != nil {
		return err
	}
	after, err := j.used(servers)
	if err != nil {
		return err
	}
	s, count := j.b.samples, float64(n*len(servers))
	key := at + "/" + kind
	s.add(key, count/longest)
	s.add(key+"/server", (after.server-before.server)/count)
	s.add(key+"/redis", (after.redis-before.redis)/count)
	s.add(key+"/commands", (after.commands-before.commands)/count)
	s.add(key+"/stored", (after.stored-before.stored)/count)
	if r := after.redis - before.redis; r > 0 {
		s.add(key+"/core", count/r*1e6)
	}
	return nil
}

// measureCalls counts with one server and then with more servers, each with its own client and
// directory.
func (b *bed) measureCalls(ctx context.Context) error {
	j, err := b.volumeOf(ctx)
	if err != nil {
		return err
	}
	var servers []*server
	for _, n := range serverCounts {
		for len(servers) < n {
			s, err := j.serveVolume()
			if err != nil {
				return err
			}
			defer b.stop(s.pid)
			if err := j.callsDir(ctx, s, len(servers)); err != nil {
				return err
			}
			servers = append(servers, s)
		}
		if err := b.each(func() error {
			for _, k := range callKinds {
				if err := j.calls(ctx, fmt.Sprintf("juicefs-calls/%d", n), k.name, servers, countCalls); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// callsDir makes the directory of a server's client, if it is missing.
func (j *juice) callsDir(ctx context.Context, s *server, i int) error {
	_, err := output(exec.CommandContext(ctx, j.program("nfsrdma"), "mkdir", "-p", s.url("nfsrdma", fmt.Sprintf("calls%d", i))))
	return err
}
