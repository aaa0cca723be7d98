// Several mounts that lengthen one file: by turns, and under locks.

package mount

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// turnsWorker appends lines to one file by two names in turn, each between an open and a close:
// A B COUNT. No line may be lost.
func turnsWorker(args []string) error {
	count, _ := strconv.Atoi(args[2])
	var want strings.Builder
	for i := range count {
		f, err := os.OpenFile(args[i%2], os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		line := appendLine(i%2, i/2)
		want.WriteString(line)
		_, err = f.WriteString(line)
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	for _, name := range args[:2] {
		got, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if string(got) != want.String() {
			return fmt.Errorf("%s has %d bytes and %d lines, want %d and %d", name, len(got), strings.Count(string(got), "\n"), want.Len(), count)
		}
	}
	return nil
}

// ends are the ways to find the end of a file that is locked.
var ends = map[string]func(f *os.File) error{
	"append": func(*os.File) error { return nil },
	"seek": func(f *os.File) error {
		_, err := f.Seek(0, io.SeekEnd)
		return err
	},
	"fstat": func(f *os.File) error {
		fi, err := f.Stat()
		if err == nil {
			_, err = f.Seek(fi.Size(), io.SeekStart)
		}
		return err
	},
	"read": func(f *os.File) error {
		_, err := f.Seek(0, io.SeekStart)
		if err == nil {
			_, err = io.Copy(io.Discard, struct{ io.Reader }{f})
		}
		return err
	},
}

// lockedWorker writes lines to the end of a file that stays open, each under a lock of it: FILE ID
// COUNT LOCK END.
func lockedWorker(args []string) error {
	id, _ := strconv.Atoi(args[1])
	count, _ := strconv.Atoi(args[2])
	flags := os.O_RDWR
	if args[4] == "append" {
		flags |= os.O_APPEND
	}
	f, err := os.OpenFile(args[0], flags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := func(typ int16, how int) error {
		for {
			var err error
			if args[3] == "flock" {
				err = unix.Flock(int(f.Fd()), how)
			} else {
				err = unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: typ})
			}
			if err != unix.EINTR { // by the runtime's own signals
				return err
			}
		}
	}
	for i := range count {
		if err := lock(unix.F_WRLCK, unix.LOCK_EX); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if err := ends[args[4]](f); err != nil {
			return err
		}
		if _, err := f.WriteString(appendLine(id, i)); err != nil {
			return err
		}
		if err := lock(unix.F_UNLCK, unix.LOCK_UN); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return f.Close()
}

// TestAppendsInTurn: two mounts that append in turn lose no line, whatever they cache.
func TestAppendsInTurn(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	for _, more := range []string{"", "noac", "actimeo=0"} {
		for _, export := range []string{"/export", "/memory"} {
			t.Run(export[1:]+" "+more, func(t *testing.T) {
				var options []string
				if more != "" {
					options = append(options, more)
				}
				a, b := s.mount(t, "rdma", export, options...), s.mount(t, "tcp", export, options...)
				name := "turns" + more
				script(t, a, "touch "+name) // before b looks
				mustWork(t, "turns", filepath.Join(a, name), filepath.Join(b, name), strconv.Itoa(scaled(60, 2000)))
			})
		}
	}
}

// TestLockedAppends: programs on two mounts lock a file, find its end and write there. They lose no
// line.
func TestLockedAppends(t *testing.T) {
	needMounts(t)
	s := startServer(t)
	a, b := s.mount(t, "rdma", "/export"), s.mount(t, "tcp", "/export")
	count := strconv.Itoa(scaled(25, 500))
	locks := []string{"fcntl", "flock"}
	for _, lock := range locks { // before b looks
		for end := range ends {
			script(t, a, "touch "+lock+end)
		}
	}
	for _, lock := range locks {
		for end := range ends {
			t.Run(lock+" "+end, func(t *testing.T) {
				name := lock + end
				const ids = 4
				var all sync.WaitGroup
				for id := range ids {
					dir := []string{a, b}[id%2]
					all.Go(func() { mustWork(t, "locked", filepath.Join(dir, name), strconv.Itoa(id), count, lock, end) })
				}
				all.Wait()
				mustWork(t, "appended", filepath.Join(a, name), strconv.Itoa(ids), count)
				mustWork(t, "appended", filepath.Join(b, name), strconv.Itoa(ids), count)
			})
		}
	}
}
