// Other ways than read(2) to see a file's content, and comparisons of it.

package fusefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"
)

// matrixBase is a file's initial content: one page, and the start of the next.
var matrixBase = bytes.Repeat([]byte("o"), 5000)

// same reports where two contents differ.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s: %d bytes %.20q… at %d, want %d bytes %.20q…", what, len(got), got[at:], at, len(want), want[at:])
}

// onMapping calls do with a mapping of the first size bytes of f. A fault is an error.
func onMapping(f *os.File, size int, do func([]byte)) (err error) {
	if size == 0 {
		return nil
	}
	p, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mmap: %w", err)
	}
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("fault in the mapping: %v", why)
		}
		err = errors.Join(err, unix.Munmap(p))
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	do(p)
	return errors.Join(unix.Msync(p, unix.MS_SYNC), f.Sync())
}

// pipedBy calls move, which puts the file's data into a pipe, until no data is left, and returns
// all of it.
func pipedBy(f *os.File, move func(out, count int) (int, error)) ([]byte, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var all []byte
	buf := make([]byte, 16<<10) // fits into a pipe
	for {
		n, err := move(p[1], len(buf))
		if n <= 0 || err != nil {
			return all, err
		}
		k, err := syscall.Read(p[0], buf[:n])
		if err != nil {
			return all, err
		}
		all = append(all, buf[:k]...)
	}
}
