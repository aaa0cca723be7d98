// The work of programs on a mount: one process per kind of work, by system calls, so that all
// mounts get the same work.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of the work.
const (
	workFiles  = 1000    // created, looked up and removed
	workSmall  = 4 << 10 // bytes of each small file
	workNames  = 10000   // names in the listed directory
	workAtOnce = 8       // threads of the parallel kinds
)

// A done is the time of some work, and its amount: MiB of data, or objects.
type done struct {
	Seconds float64 `json:"seconds"`
	Count   float64 `json:"count"`
}

// works are the kinds of work in a directory, by name. n is the number of files, shared by the
// threads.
var works = map[string]func(dir string, n, threads int) (float64, error){
	"write": writeLarge, "read": readLarge, "create": createFiles, "stat": statFiles, "remove": removeFiles, "list": listFiles, "walk": walkFiles, "touch": touchFiles,
}

// work runs "_work KIND DIR N THREADS" and writes its time.
func work(args []string, out io.Writer) error {
	do := works[args[0]]
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	threads, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	start := time.Now()
	count, err := do(args[1], n, threads)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(done{time.Since(start).Seconds(), count})
}

// writeLarge writes a file and waits until it is stable.
func writeLarge(dir string, _, _ int) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	p := make([]byte, readBlock)
	for i := range p {
		p[i] = byte(i % 251)
	}
	for off := 0; off < fileSize; off += len(p) {
		if _, err := f.Write(p); err != nil {
			return 0, err
		}
	}
	return fileSize >> 20, f.Sync()
}

// readLarge reads a file after dropping its pages.
func readLarge(dir string, _, _ int) (float64, error) {
	f, err := os.Open(filepath.Join(dir, "large"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return 0, err
	}
	p := make([]byte, readBlock)
	for off := 0; off < fileSize; off += len(p) {
		if _, err := io.ReadFull(f, p); err != nil {
			return 0, err
		}
		for i := 0; i < len(p); i += 4093 {
			if p[i] != byte(i%251) {
				return 0, fmt.Errorf("%s: byte %d is wrong", f.Name(), off+i)
			}
		}
	}
	return fileSize >> 20, nil
}

// divideFiles calls do for n files, divided among threads.
func divideFiles(dir string, n, threads int, do func(name string) error) (float64, error) {
	failed := make([]error, threads)
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			for i := t; i < n && failed[t] == nil; i += threads {
				failed[t] = do(filepath.Join(dir, fmt.Sprintf("file%07d", i)))
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return 0, err
		}
	}
	return float64(n), nil
}

// createFiles makes small files.
func createFiles(dir string, n, threads int) (float64, error) {
	p := make([]byte, workSmall)
	return divideFiles(dir, n, threads, func(name string) error {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(p)
		if e := f.Close(); err == nil {
			err = e
		}
		return err
	})
}

// retryInterrupted repeats a system call interrupted by a signal. Go's scheduler sends signals, and
// JuiceFS's mount gives up a request if its caller gets one. An interrupted attempt may have
// succeeded; the next attempt then returns done.
func retryInterrupted(do func() error, done error) error {
	err := do()
	for interrupted := false; ; err = do() {
		switch {
		case errors.Is(err, unix.EINTR):
			interrupted = true
			continue
		case interrupted && errors.Is(err, done):
			return nil
		}
		return err
	}
}

// touchFiles makes empty files.
func touchFiles(dir string, n, threads int) (float64, error) {
	return divideFiles(dir, n, threads, func(name string) error {
		return retryInterrupted(func() error { return unix.Mknod(name, unix.S_IFREG|0o644, 0) }, unix.EEXIST)
	})
}

func statFiles(dir string, n, threads int) (float64, error) {
	return divideFiles(dir, n, threads, func(name string) error {
		_, err := os.Lstat(name)
		return err
	})
}

func removeFiles(dir string, n, threads int) (float64, error) {
	return divideFiles(dir, n, threads, func(name string) error {
		return retryInterrupted(func() error { return unix.Unlink(name) }, unix.ENOENT)
	})
}

// listFiles runs `ls -l`.
func listFiles(dir string, n, _ int) (float64, error) {
	out, err := output(exec.Command("ls", "-l", dir))
	if err != nil {
		return 0, err
	}
	lines := -1 // the first line is the total
	for _, c := range out {
		if c == '\n' {
			lines++
		}
	}
	if lines != n {
		return 0, fmt.Errorf("%s has %d names, want %d", dir, lines, n)
	}
	return float64(n), nil
}

// walkFiles stats all files in a tree, like find, and opens no file.
func walkFiles(dir string, n, _ int) (float64, error) {
	seen := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		_, err = d.Info()
		return err
	})
	if err == nil && seen != n {
		err = fmt.Errorf("%s has %d files, want %d", dir, seen, n)
	}
	return float64(seen), err
}
