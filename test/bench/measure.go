// The measurements that need only nfsrdma bench.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// each calls f once per round.
func (b *bed) each(f func() error) error {
	for range b.config.rounds {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// round runs one job on all targets, one after another.
func (b *bed) round(ctx context.Context, at string, j job, of ...target) error {
	for _, j.target = range b.targets(of...) {
		if err := b.sample(ctx, at, j); err != nil {
			return err
		}
		j.raw = false // once per round
	}
	return nil
}

func (b *bed) measureData(ctx context.Context) error {
	return b.each(func() error {
		return b.round(ctx, "data", job{tests: "read,write", depth: 8, raw: true}, rdma, rdmaOff, tcp, ganesha)
	})
}

// measureSmall measures with 8 calls in flight per connection.
func (b *bed) measureSmall(ctx context.Context) error {
	return b.each(func() error {
		if err := b.round(ctx, "small", job{tests: "randread,randwrite,getattr,lookup", depth: 8}, rdma, tcp, ganesha); err != nil {
			return err
		}
		return b.round(ctx, "small4", job{tests: "randread,randwrite", depth: 4 * 8, conns: 4}, rdma, tcp, ganesha)
	})
}

// measureLatency measures one call at a time, alone and while another client reads.
func (b *bed) measureLatency(ctx context.Context) error {
	j := job{tests: "null,getattr", depth: 1, raw: true}
	return b.each(func() error {
		if err := b.round(ctx, "latency", j, rdma, tcp); err != nil {
			return err
		}
		return b.whileRunning(ctx, reading(rdma, 8*b.config.duration), func() error { return b.round(ctx, "loaded", j, rdma) })
	})
}

// reading returns a stream of READs to run during a measurement of at most most.
func reading(from target, most time.Duration) job {
	return job{target: from, tests: "read", depth: 8, time: most + time.Second}
}

// whileRunning runs f while another process runs j, which takes longer than f. The process is ended
// after f.
func (b *bed) whileRunning(ctx context.Context, j job, f func() error) error {
	args, err := b.args(j)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// an interrupted nfsrdma bench removes its file
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	defer cmd.Wait()
	defer cancel()
	time.Sleep(time.Second) // the process writes its file first
	return f()
}

// measureTail measures alone and during a stream of READs over the same transport.
func (b *bed) measureTail(ctx context.Context) error {
	j := job{tests: "getattr", depth: 8}
	return b.each(func() error {
		for _, over := range []target{rdma, tcp} {
			if err := b.round(ctx, "alone", j, over); err != nil {
				return err
			}
			err := b.whileRunning(ctx, reading(over, 3*b.config.duration), func() error { return b.round(ctx, "beside", j, over) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// makeNames makes a directory of n empty files, and returns a function that removes it.
func (b *bed) makeNames(dir string, n int) (remove func(), err error) {
	dir = filepath.Join(b.served, dir)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	for i := range n {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("name-%07d", i)))
		if err != nil {
			remove()
			return nil, err
		}
		f.Close()
	}
	return remove, nil
}

func (b *bed) measureList(ctx context.Context) error {
	remove, err := b.makeNames("thousand", 1000)
	if err != nil {
		return err
	}
	defer remove()
	return b.each(func() error {
		if err := b.round(ctx, "list", job{tests: "readdirplus", dir: "thousand", depth: 1}, rdma, tcp, ganesha); err != nil {
			return err
		}
		return b.round(ctx, "list4", job{tests: "readdirplus", dir: "thousand", depth: 4}, rdma, ganesha)
	})
}

// measureMillion lists a directory with a million names completely, at least once, and samples the
// server's memory.
func (b *bed) measureMillion(ctx context.Context) error {
	remove, err := b.makeNames("million", 1_000_000)
	if err != nil {
		return err
	}
	defer remove()
	before, err := resetPeak(b.ours.pid)
	if err != nil {
		return err
	}
	j := job{tests: "readdirplus", dir: "million", depth: 1, time: max(b.config.duration, 3*time.Second)}
	for range min(b.config.rounds, 3) {
		if err := b.round(ctx, "million", j, rdma, ganesha); err != nil {
			return err
		}
	}
	peak, err := memory(b.ours.pid, "VmHWM")
	b.samples.add("million/growth", float64(peak-before)/(1<<20))
	return err
}

// measureRnic runs rnic-bench, which has figures for each size and mode.
func (b *bed) measureRnic(ctx context.Context) error {
	return b.each(func() error {
		d := b.config.duration / 7
		out, err := output(exec.CommandContext(ctx, filepath.Join(b.base, "nfsrdma"), "rnic-bench", "--json", "--duration", d.String()))
		if err != nil {
			return err
		}
		return b.samples.addVerbs(out)
	})
}

// addVerbs adds the default mode's figures in rnic-bench's JSON.
func (s samples) addVerbs(out []byte) error {
	var r struct {
		Raw struct {
			Stream float64 `json:"stream_mib_s"`
		} `json:"raw_tcp"`
		Figures []struct {
			Mode  struct{ CRC, Markers bool }
			Test  string
			Size  int `json:"bytes"`
			Depth int
			MiBs  float64 `json:"mib_s"`
		}
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	s.add("rnic/raw", r.Raw.Stream)
	for _, f := range r.Figures {
		if f.Mode.CRC && !f.Mode.Markers && f.MiBs > 0 {
			s.add(fmt.Sprintf("rnic/%s/%d/%d", f.Test, f.Size, f.Depth), f.MiBs)
		}
	}
	return nil
}

// memory returns a value in /proc/PID/status, in bytes.
func memory(pid int, line string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), line+":")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil || !found {
		return 0, fmt.Errorf("no %s in /proc/%d/status", line, pid)
	}
	return kib << 10, nil
}

// resetPeak resets VmHWM to the present resident memory, and returns that.
func resetPeak(pid int) (int64, error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	return memory(pid, "VmRSS")
}
