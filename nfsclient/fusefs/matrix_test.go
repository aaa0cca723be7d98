// Each way to change a file by one mount, against each way to see it by another, after each point
// at which NFS promises that the two agree.

package fusefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// matrixBase is the file's first content: a page and the start of the next one.
var matrixBase = bytes.Repeat([]byte("o"), 5000)

// matrixChanges are changes by one client between its open and its close.
var matrixChanges = []struct {
	name string
	do   func(t *testing.T, f *os.File)
}{
	{"write", func(t *testing.T, f *os.File) { writeAt(t, f, "changed", 4500) }},
	{"grow in the page", func(t *testing.T, f *os.File) { writeAt(t, f, "grown", 5000) }},
	{"grow by pages", func(t *testing.T, f *os.File) { writeAt(t, f, string(bytes.Repeat([]byte("g"), 20000)), 5000) }},
	{"grow to a page's end", func(t *testing.T, f *os.File) { writeAt(t, f, string(bytes.Repeat([]byte("g"), 8192-5000)), 5000) }},
	{"grow by a page's first byte", func(t *testing.T, f *os.File) { writeAt(t, f, string(bytes.Repeat([]byte("g"), 8193-5000)), 5000) }},
	{"truncate", func(t *testing.T, f *os.File) { must(t, f.Truncate(100)) }},
	{"truncate to nothing", func(t *testing.T, f *os.File) { must(t, f.Truncate(0)) }},
	{"truncate to more", func(t *testing.T, f *os.File) { must(t, f.Truncate(9000)) }},
	{"O_TRUNC", func(t *testing.T, f *os.File) {
		g, err := os.OpenFile(f.Name(), os.O_WRONLY|os.O_TRUNC, 0)
		must(t, err)
		defer g.Close()
		writeAt(t, g, "head", 0)
		must(t, g.Close())
	}},
	{"append", func(t *testing.T, f *os.File) {
		g, err := os.OpenFile(f.Name(), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer g.Close()
		_, err = g.WriteString("appended")
		must(t, err)
		must(t, g.Close())
	}},
	{"store", func(t *testing.T, f *os.File) {
		must(t, onMapping(f, len(matrixBase), func(p []byte) { copy(p[4990:], "store") }))
	}},
	{"copy_file_range", func(t *testing.T, f *os.File) {
		from, to := int64(0), int64(5000)
		_, err := unix.CopyFileRange(int(f.Fd()), &from, int(f.Fd()), &to, 3000, 0)
		must(t, err)
	}},
}

// matrixViews read the file, which is want on the server, and return its content afterwards. The
// error describes a difference.
var matrixViews = []struct {
	name  string
	flags int
	do    func(m *mounted, f *os.File, want []byte) (after []byte, err error)
}{
	{"read", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		return want, errors.Join(err, same("read", got, want))
	}},
	{"pread past the end", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		for _, off := range []int{len(want), len(want) + 10, len(want) + 3000, len(want) + 4096} {
			if n, err := unix.Pread(int(f.Fd()), make([]byte, 100), int64(off)); n != 0 || err != nil {
				return want, fmt.Errorf("pread at %d of %d: %d bytes, %v", off, len(want), n, err)
			}
		}
		return want, nil
	}},
	{"mapping", os.O_RDWR, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		var got []byte
		err := onMapping(f, len(want), func(p []byte) { got = append(got, p...) })
		return want, errors.Join(err, same("mapping", got, want))
	}},
	{"sendfile", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		got, err := pipedBy(f, func(out, count int) (int, error) {
			return unix.Sendfile(out, int(f.Fd()), nil, count)
		})
		return want, errors.Join(err, same("sendfile", got, want))
	}},
	{"splice", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		got, err := pipedBy(f, func(out, count int) (int, error) {
			n, err := unix.Splice(int(f.Fd()), nil, out, nil, count, 0)
			return int(n), err
		})
		return want, errors.Join(err, same("splice", got, want))
	}},
	{"SEEK_END", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		end, err := f.Seek(0, io.SeekEnd)
		if err == nil && end != int64(len(want)) {
			err = fmt.Errorf("end at %d, want %d", end, len(want))
		}
		return want, err
	}},
	{"stat", os.O_RDONLY, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		fi, err := os.Stat(f.Name())
		if err == nil && fi.Size() != int64(len(want)) {
			err = fmt.Errorf("size %d, want %d", fi.Size(), len(want))
		}
		return want, err
	}},
	{"append", os.O_WRONLY | os.O_APPEND, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		return appendTo(f, want)
	}},
	{"append and read", os.O_RDWR | os.O_APPEND, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		after, err := appendTo(f, want)
		if err != nil {
			return nil, err
		}
		got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
		return after, errors.Join(err, same("read after the append", got, after))
	}},
	{"append by F_SETFL", os.O_RDWR, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_APPEND); err != nil {
			return nil, err
		}
		return appendTo(f, want)
	}},
	{"write", os.O_RDWR, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		if _, err := f.WriteAt([]byte("w"), 3); err != nil {
			return nil, err
		}
		after := append(make([]byte, 0, len(want)+4), want...)
		if len(after) < 4 {
			after = after[:4]
		}
		after[3] = 'w'
		return after, f.Sync()
	}},
	{"store", os.O_RDWR, func(_ *mounted, f *os.File, want []byte) ([]byte, error) {
		if len(want) == 0 {
			return want, nil
		}
		after := bytes.Clone(want)
		after[len(after)-1] = 'M'
		return after, onMapping(f, len(want), func(p []byte) { p[len(p)-1] = 'M' })
	}},
	{"copy_file_range", os.O_RDONLY, func(m *mounted, f *os.File, want []byte) ([]byte, error) {
		to, err := os.Create(f.Name() + ".copy")
		if err != nil {
			return nil, err
		}
		defer to.Close()
		for n := 1; n > 0 && err == nil; {
			n, err = unix.CopyFileRange(int(f.Fd()), nil, int(to.Fd()), nil, 1<<20, 0)
		}
		if err = errors.Join(err, to.Close()); err != nil {
			return nil, err
		}
		got, err := os.ReadFile(m.there(filepath.Base(to.Name())))
		return want, errors.Join(err, same("copy", got, want))
	}},
}

// matrixOrders are the points at which the two must agree. A file that is held stays open across
// the change.
var matrixOrders = []struct {
	name  string
	held  bool
	noac  bool
	agree func(f *os.File) error
}{
	{"open", false, false, func(*os.File) error { return nil }},
	{"open and fstat", false, false, fstat},
	{"fcntl lock", true, false, func(f *os.File) error {
		typ := int16(unix.F_WRLCK)
		if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
			typ = unix.F_RDLCK
		}
		return unix.FcntlFlock(f.Fd(), unix.F_SETLKW, &unix.Flock_t{Type: typ})
	}},
	{"flock", true, false, func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH) }},
	{"fstat with noac", true, true, fstat},
}

func fstat(f *os.File) error {
	_, err := f.Stat()
	return err
}

// TestAgreement is the matrix.
func TestAgreement(t *testing.T) {
	for _, noac := range []bool{false, true} {
		opt := options{NoAC: noac}
		if !noac {
			opt.AcMin, opt.AcMax = long, long
		}
		m := mountTwin(t, opt, false, true)
		for _, o := range matrixOrders {
			if o.noac != noac {
				continue
			}
			for _, c := range matrixChanges {
				for _, v := range matrixViews {
					t.Run(o.name+"/"+c.name+"/"+v.name, func(t *testing.T) { m.agrees(t, v.flags, o.held, o.agree, c.do, v.do) })
				}
			}
		}
	}
}

// agrees is one cell of the matrix.
func (m *mounted) agrees(t *testing.T, flags int, held bool, agree func(*os.File) error, change func(*testing.T, *os.File),
	view func(*mounted, *os.File, []byte) ([]byte, error)) {
	const name = "file" // always the same one: names have caches of their own
	must(t, os.WriteFile(m.at(name), matrixBase, 0o644))
	past := time.Unix(1_000_000_000, 0) // so that no clock is too coarse to show the change
	must(t, os.Chtimes(m.at(name), past, past))
	before, err := os.OpenFile(m.at(name), os.O_RDWR, 0)
	must(t, err)
	defer before.Close()
	got, err := io.ReadAll(before)
	must(t, errors.Join(err, same("read before", got, matrixBase)))
	must(t, fstat(before))
	open := func() *os.File {
		f, err := os.OpenFile(m.at(name), flags, 0)
		must(t, err)
		return f
	}
	var f *os.File
	if held {
		f = open()
	} else {
		must(t, before.Close())
	}
	other, err := os.OpenFile(m.twin(name), os.O_RDWR, 0)
	must(t, err)
	defer other.Close()
	change(t, other)
	must(t, other.Close())
	want, err := os.ReadFile(m.there(name))
	must(t, err)
	if !held {
		f = open()
	}
	defer f.Close()
	must(t, agree(f))
	after, err := view(m, f, want)
	if err != nil {
		t.Error(err)
		return
	}
	must(t, f.Close())
	is, err := os.ReadFile(m.there(name))
	if err = errors.Join(err, same("the server", is, after)); err != nil {
		t.Error(err)
	}
}

// same says where two contents differ.
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

func writeAt(t *testing.T, f *os.File, text string, off int64) {
	t.Helper()
	if _, err := f.WriteAt([]byte(text), off); err != nil {
		t.Fatal(err)
	}
}

// appendTo appends to a file that is want, and returns how it is then.
func appendTo(f *os.File, want []byte) ([]byte, error) {
	if _, err := f.WriteString("tail"); err != nil {
		return nil, err
	}
	return append(bytes.Clone(want), "tail"...), f.Sync()
}

// onMapping has do use a mapping of the first size bytes of f. A fault is an error.
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

// pipedBy collects the data that move moves into a pipe, until it moves no more.
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
	buf := make([]byte, 16<<10) // which a pipe has room for
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
