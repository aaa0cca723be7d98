// The groups with many connections: the shared bandwidth, and the cost of idle connections.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// ownPID returns this process's PID in its /proc.
func ownPID() int { return os.Getpid() }

// resident returns a process's resident memory, in bytes.
func resident(pid int) (int64, error) { return memory(pid, "VmRSS") }

// layOut makes the file that the connections read.
func (b *bed) layOut(name string) (remove func(), err error) {
	return layOutAt(filepath.Join(b.served, name))
}

// layOutAt makes a file of fileSize bytes.
func layOutAt(name string) (remove func(), err error) {
	p := make([]byte, readBlock)
	for i := range p {
		p[i] = byte(i % 251)
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for off := int64(0); off < fileSize; off += readBlock {
		if _, err := f.WriteAt(p, off); err != nil {
			return nil, err
		}
	}
	return func() { _ = os.Remove(name) }, nil
}

// connCounts are the numbers of connections that read concurrently.
var connCounts = []int{1, 4, 8, 16}

func (b *bed) measureConns(ctx context.Context) error {
	remove, err := b.layOut("shared")
	if err != nil {
		return err
	}
	defer remove()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return b.each(func() error {
		for _, n := range connCounts {
			out, err := output(b.clientCommand(ctx, self, "_conns", strconv.Itoa(n), b.config.duration.String(), b.ours.url("nfsrdma", "shared")))
			if err != nil {
				return err
			}
			if err := b.samples.addConns(n, out); err != nil {
				return err
			}
		}
		return nil
	})
}

// addConns adds the sum, the mean and the least of the connections' rates.
func (s samples) addConns(n int, out []byte) error {
	var r readings
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	if len(r.Bytes) != n || r.Seconds <= 0 {
		return fmt.Errorf("%d connections are %d, in %v s", n, len(r.Bytes), r.Seconds)
	}
	rate := func(bytes int64) float64 { return float64(bytes) / (1 << 20) / r.Seconds }
	sum := int64(0)
	for _, read := range r.Bytes {
		sum += read
	}
	at := fmt.Sprintf("conns/%d/", n)
	s.add(at+"sum", rate(sum))
	s.add(at+"mean", rate(sum)/float64(n))
	s.add(at+"least", rate(slices.Min(r.Bytes)))
	return nil
}

const (
	idleCount = 10_000
	idleRest  = 25 * time.Second // nfsrdmad has then freed the memory used in connecting
	idleAfter = 60 * time.Second
)

// measureIdle makes idle connections, once. It measures their memory, and another client's reads
// before and beside them.
func (b *bed) measureIdle(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	read := job{tests: "read", depth: 8}
	if err := b.each(func() error { return b.round(ctx, "idlebefore", read, rdma) }); err != nil {
		return err
	}
	if err := sleep(ctx, idleRest); err != nil {
		return err
	}
	before, err := resident(b.ours.pid)
	if err != nil {
		return err
	}
	n := min(idleCount, descriptors()-1000)
	cmd := b.clientCommand(ctx, self, "_idle", strconv.Itoa(n), b.ours.url("nfsrdma", ""))
	cmd.Stderr = os.Stderr
	_, out, end, err := machine.Start(cmd)
	if err != nil {
		return err
	}
	var client int64
	if _, err := fmt.Fscanln(out, &client); err != nil {
		_ = end()
		return fmt.Errorf("%d connections: %w", n, err)
	}
	err = b.sampleIdle(ctx, n, before, client, read)
	if e := end(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := sleep(ctx, idleAfter); err != nil {
		return err
	}
	after, err := resident(b.ours.pid)
	b.samples.add("idle/after", float64(after)/1e6)
	return err
}

// sampleIdle samples the server while the connections exist, and another client's concurrent reads.
func (b *bed) sampleIdle(ctx context.Context, n int, before, client int64, read job) error {
	if err := sleep(ctx, idleRest); err != nil {
		return err
	}
	with, err := resident(b.ours.pid)
	if err != nil {
		return err
	}
	b.samples.add("idle/count", float64(n))
	b.samples.add("idle/before", float64(before)/1e6)
	b.samples.add("idle/client", float64(client)/1024)
	b.samples.add("idle/server", float64(with-before)/1024/float64(n))
	b.samples.add("idle/resident", float64(with)/1e6)
	return b.each(func() error { return b.round(ctx, "idle", read, rdma) })
}

// descriptors returns the limit of this process's open files.
func descriptors() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(l.Max)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
