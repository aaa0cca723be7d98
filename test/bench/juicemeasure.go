// The group with programs on the mounts, and nfsrdma bench against the servers.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of a process and all its past and present threads, in µs.
func cpuTime(pid int) (float64, error) {
	// The process clock of clock_getcpuclockid(3) has the scheduler's resolution; /proc/PID/stat
	// has 10 ms.
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return float64(t.Nano()) / 1e3, nil
}

// work runs a work process on a mount and adds its results: AT/KIND/MOUNT is MiB/s or objects per
// second. The suffix /cpu/PROCESS is each process's CPU time per MiB or object in µs, and /cpu is
// their sum.
func (j *juice) work(ctx context.Context, at, kind, dir string, n, threads int, m *mounted) error {
	pids := m.pids(j.redis)
	before, err := cpuTimes(pids)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "_work", kind, dir, strconv.Itoa(n), strconv.Itoa(threads))
	out, err := output(cmd)
	if err != nil {
		return err
	}
	var d done
	if err := json.Unmarshal(out, &d); err != nil {
		return err
	}
	s, key := j.b.samples, at+"/"+kind
	if threads > 1 {
		key += strconv.Itoa(threads)
	}
	key += "/" + m.kind
	s.add(key, d.Count/d.Seconds)
	used := float64((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds())
	s.add(key+"/cpu/program", used/d.Count)
	after, err := awaitIdle(ctx, pids)
	if err != nil {
		return err
	}
	for name, t := range after {
		s.add(key+"/cpu/"+name, (t-before[name])/d.Count)
		used += t - before[name]
	}
	s.add(key+"/cpu", used/d.Count)
	return nil
}

// cpuTimes returns cpuTime for several processes.
func cpuTimes(pids map[string]int) (map[string]float64, error) {
	times := map[string]float64{}
	for name, pid := range pids {
		t, err := cpuTime(pid)
		if err != nil {
			return nil, err
		}
		times[name] = t
	}
	return times, nil
}

const (
	restTime  = 200 * time.Millisecond
	restShare = 0.02             // of a CPU: heartbeats and garbage collection continue
	restLimit = 20 * time.Second // limit of the wait for idle processes
)

// awaitIdle waits until the processes have finished deferred work, such as removing objects and
// uploading blocks. That work belongs to the present measurement rather than the next.
func awaitIdle(ctx context.Context, pids map[string]int) (map[string]float64, error) {
	was, err := cpuTimes(pids)
	for end := time.Now().Add(restLimit); err == nil; {
		if err = sleep(ctx, restTime); err != nil {
			break
		}
		var is map[string]float64
		if is, err = cpuTimes(pids); err != nil {
			break
		}
		used := 0.0
		for name := range is {
			used += is[name] - was[name]
		}
		if used < restShare*float64(restTime.Microseconds()) || time.Now().After(end) {
			return is, nil
		}
		was = is
	}
	return nil, err
}

// measureJuice runs the same work on each mount in turn, in each round.
func (b *bed) measureJuice(ctx context.Context) error {
	j, err := b.volumeOf(ctx)
	if err != nil {
		return err
	}
	if err := j.layOut(ctx); err != nil {
		return err
	}
	if err := b.each(func() error {
		for _, kind := range mountKinds {
			if err := j.roundOn(ctx, kind); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return j.measureDirect(ctx)
}

// layOut makes the read-only files: a large file, small files, and two directories with many names.
func (j *juice) layOut(ctx context.Context) error {
	m, err := j.mount(ctx, mountJuice)
	if err != nil {
		return err
	}
	for _, root := range []string{m.at, j.b.served} {
		if _, err := writeLarge(root, 0, 0); err != nil {
			return err
		}
		for _, d := range []struct {
			name string
			n    int
			do   func(string, int, int) (float64, error)
		}{{"small", workFiles, createFiles}, {"names", workNames, touchFiles}, {"listed", workNames, touchFiles}} {
			dir := filepath.Join(root, d.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			if _, err := d.do(dir, d.n, workAtOnce); err != nil {
				return err
			}
		}
	}
	return j.unmount(m)
}

// roundOn mounts, measures the cache-dependent work first, and then the rest. "list" uses another
// directory than "walk", and also queries each file's ACL.
func (j *juice) roundOn(ctx context.Context, kind string) error {
	m, err := j.mount(ctx, kind)
	if err != nil {
		return err
	}
	made, err := j.dir("made")
	if err != nil {
		return err
	}
	dir := filepath.Join(m.at, filepath.Base(made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, w := range []struct {
		at, kind, dir string
		n, threads    int
	}{
		{"cold", "read", m.at, 0, 1}, {"warm", "read", m.at, 0, 1},
		{"warm", "write", dir, 0, 1},
		{"cold", "walk", filepath.Join(m.at, "names"), workNames, 1},
		{"cold", "list", filepath.Join(m.at, "listed"), workNames, 1},
		{"cold", "stat", filepath.Join(m.at, "small"), workFiles, 1},
		{"warm", "create", dir, workFiles, 1}, {"warm", "remove", dir, workFiles, 1},
		{"warm", "create", dir, workFiles, workAtOnce}, {"warm", "remove", dir, workFiles, workAtOnce},
	} {
		if err := j.work(ctx, "juicefs/"+w.at, w.kind, w.dir, w.n, w.threads, m); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return j.unmount(m)
}

// measureDirect runs nfsrdma bench against both servers, without a mount.
func (j *juice) measureDirect(ctx context.Context) error {
	volume, err := j.serveVolume()
	if err != nil {
		return err
	}
	defer j.b.stop(volume.pid)
	return j.b.each(func() error {
		for _, s := range []*server{volume, j.b.ours} {
			at := "juicefs/direct"
			if s != volume {
				at = "juicefs/direct/osfs"
			}
			if err := j.b.sample(ctx, at, job{target: rdma, server: s, tests: "write,read,randread,getattr,lookup", depth: 8}); err != nil {
				return err
			}
			if err := j.b.sample(ctx, at, job{target: rdma, server: s, tests: "readdirplus", depth: 1, dir: "names"}); err != nil {
				return err
			}
		}
		return nil
	})
}
