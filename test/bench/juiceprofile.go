// The group that divides nfsrdmad-juicefs's CPU time: perf samples, by the package responsible for
// the innermost call.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// profiled are the kinds of calls to profile.
var profiled = []string{"CREATE", "LOOKUP", "GETATTR", "WRITE", "READ", "REMOVE"}

// profileCalls is the number of calls per profile.
const profileCalls = 20000

// An owner is a package group. A sample belongs to the owner of the innermost stack function with
// one of the prefixes. So the kernel's or the Go runtime's work for a function counts for that
// function's owner, and their own rows have only the remaining samples.
type owner struct {
	key, title string
	begins     []string
}

var owners = []owner{
	{"redis", "Redis's client", []string{"github.com/redis/"}},
	{"juicefs", "JuiceFS", []string{"github.com/juicedata/"}},
	{"transport", "ours: RDMA and RPC", []string{module + "rnic", module + "rpcrdma", module + "transport", module + "chunks", module + "xdr"}},
	{"server", "ours: NFS server and FS", []string{module}},
	{"runtime", "Go's scheduler, network poller and garbage collector, idle kernel", nil},
}

const module = "github.com/nfsrdma/nfsrdma/"

// ownerOf returns the owner of a stack, innermost function first.
func ownerOf(stack []string) string {
	for _, f := range stack {
		for _, o := range owners {
			for _, b := range o.begins {
				if strings.HasPrefix(f, b) {
					return o.key
				}
			}
		}
	}
	return owners[len(owners)-1].key
}

// parsePerf counts the samples of each owner in the output of `perf script -F ip,sym`: one line per
// stack function, and an empty line after each stack.
func parsePerf(r io.Reader) (map[string]int, error) {
	counts := map[string]int{}
	var stack []string
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := strings.TrimSpace(in.Text())
		if _, symbol, ok := strings.Cut(line, " "); ok {
			stack = append(stack, symbol)
		} else if line == "" && len(stack) > 0 {
			counts[ownerOf(stack)]++
			stack = stack[:0]
		}
	}
	if len(stack) > 0 {
		counts[ownerOf(stack)]++
	}
	return counts, in.Err()
}

// measureProfile samples a server during repeated calls of one kind.
func (b *bed) measureProfile(ctx context.Context) error {
	j, err := b.volumeOf(ctx)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("perf"); err != nil {
		return errors.New("needs perf")
	}
	s, err := j.serveVolume()
	if err != nil {
		return err
	}
	defer b.stop(s.pid)
	if err := j.callsDir(ctx, s, 0); err != nil {
		return err
	}
	for _, k := range callKinds {
		do := func() error {
			return j.calls(ctx, "juicefs-profile/calls", k.name, []*server{s}, profileCalls)
		}
		if !slices.Contains(profiled, k.name) {
			err = do()
		} else {
			err = j.profile(ctx, k.name, s, do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// profile samples the server while do runs.
func (j *juice) profile(ctx context.Context, kind string, s *server, do func() error) error {
	data := filepath.Join(j.b.base, "perf.data")
	record := exec.CommandContext(ctx, "perf", "record", "-q", "-g", "-F", "499", "-e", "cpu-clock", "-o", data, "-p", strconv.Itoa(s.pid))
	if err := j.b.start(record); err != nil {
		return err
	}
	err := do()
	if e := j.b.stop(record.Process.Pid); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	out, err := output(exec.CommandContext(ctx, "perf", "script", "-i", data, "-F", "ip,sym"))
	if err != nil {
		return err
	}
	counts, err := parsePerf(bytes.NewReader(out))
	if err != nil {
		return err
	}
	all := 0
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return errors.New("perf has no samples")
	}
	for _, o := range owners {
		j.b.samples.add("juicefs-profile/"+kind+"/"+o.key, 100*float64(counts[o.key])/float64(all))
	}
	return nil
}
