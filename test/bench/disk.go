// The disk group: reads of an uncached file, compared with fio on the same file.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// diskDepth and diskBlock apply to both readers.
const (
	diskDepth = 32
	diskBlock = 4 << 10
)

// measureDisk reads a file on a disk at random offsets, over RDMA and with fio. The kernel's cached
// pages are dropped before each measurement.
func (b *bed) measureDisk(ctx context.Context) error {
	dir, err := os.MkdirTemp(b.config.disk, "nfsrdma-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := b.serve(dir, "state-disk")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, "cold")
	if _, err := layOutAt(name); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, missing := exec.LookPath("fio")
	if missing != nil {
		fmt.Fprintln(os.Stderr, "bench: without fio (it has to be installed)")
	}
	return b.each(func() error {
		if err := dropPages(name); err != nil {
			return err
		}
		out, err := output(exec.CommandContext(ctx, self, "_cold", b.config.duration.String(), s.url("nfsrdma", "cold")))
		if err != nil {
			return err
		}
		if err := b.samples.addCold(out); err != nil || missing != nil {
			return err
		}
		if err := dropPages(name); err != nil {
			return err
		}
		out, err = output(exec.CommandContext(ctx, "fio", "--name=cold", "--filename="+name, "--rw=randread", "--bs="+strconv.Itoa(diskBlock),
			"--iodepth="+strconv.Itoa(diskDepth), "--ioengine=io_uring", "--time_based", "--output-format=json",
			"--runtime="+strconv.FormatInt(b.config.duration.Milliseconds(), 10)+"ms"))
		if err != nil {
			return err
		}
		return b.samples.addFio(out)
	})
}

// dropPages makes the kernel write a file to disk and drop its pages.
func dropPages(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// addCold adds the rate written by _cold.
func (s samples) addCold(out []byte) error {
	var r readings
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	if len(r.Bytes) != 1 || r.Seconds <= 0 {
		return fmt.Errorf("_cold wrote %s", out)
	}
	s.add("disk/rdma", float64(r.Bytes[0])/diskBlock/r.Seconds)
	return nil
}

// addFio adds the reads per second in fio's JSON.
func (s samples) addFio(out []byte) error {
	var r struct {
		Jobs []struct {
			Read struct {
				IOPS float64 `json:"iops"`
			} `json:"read"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	if len(r.Jobs) != 1 || r.Jobs[0].Read.IOPS <= 0 {
		return errors.New("fio has read nothing")
	}
	s.add("disk/fio", r.Jobs[0].Read.IOPS)
	return nil
}

// readAnywhere reads the blocks of the file at url in random order, diskDepth at a time, for d and
// at least one block each. No block is repeated before all blocks have been read.
func readAnywhere(d time.Duration, url string) (r readings, err error) {
	t, err := nfsclient.ParseTarget(url)
	if err != nil {
		return r, err
	}
	ctx := context.Background()
	fsys, rest, err := nfsclient.Open(ctx, t, nfsclient.Options{Transport: t.Transport})
	if err != nil {
		return r, err
	}
	defer fsys.Client().Close()
	f, err := fsys.Open(ctx, rest)
	if err != nil {
		return r, err
	}
	defer f.Close()
	order := rand.Perm(fileSize / diskBlock)
	var next, total atomic.Int64
	var wg sync.WaitGroup
	failed := make([]error, diskDepth)
	start := time.Now()
	for i := range diskDepth {
		wg.Go(func() {
			p := make([]byte, diskBlock)
			for again := true; again && failed[i] == nil; again = time.Since(start) < d {
				block := order[int(next.Add(1)-1)%len(order)]
				var n int
				n, failed[i] = f.ReadAt(p, int64(block)*diskBlock)
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	return readings{time.Since(start).Seconds(), []int64{total.Load()}}, errors.Join(failed...)
}
