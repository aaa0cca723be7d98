// Appends within one mount, and notices that are sent late.

package fusefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// An append bypasses the kernel's pages. Programs on the mount that have the file open and cached
// see the appended data.
func TestAppendIsSeenByThoseWithPages(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for _, size := range []int{0, 1, 100, 4095, 4096, 5000} {
		name := fmt.Sprint(size)
		want := bytes.Repeat([]byte("o"), size)
		must.Succeed(t, os.WriteFile(m.at(name), want, 0o644))
		reader, err := os.OpenFile(m.at(name), os.O_RDWR, 0)
		must.Succeed(t, err)
		defer reader.Close()
		got, err := io.ReadAll(reader)
		must.Succeed(t, errors.Join(err, same("before", got, want)))
		f, err := os.OpenFile(m.at(name), os.O_WRONLY|os.O_APPEND, 0)
		must.Succeed(t, err)
		defer f.Close()
		for range 3 {
			_, err = f.WriteString("appended")
			must.Succeed(t, err)
			want = append(want, "appended"...)
			got, err := io.ReadAll(io.NewSectionReader(reader, 0, 1<<20))
			must.Succeed(t, errors.Join(err, same("read", got, want)))
			must.Succeed(t, onMapping(reader, len(want), func(p []byte) { err = same("mapping", p, want) }))
			must.Succeed(t, err)
			got, err = pipedBy(reader, func(out, count int) (int, error) {
				return unix.Sendfile(out, int(reader.Fd()), nil, count)
			})
			must.Succeed(t, errors.Join(err, same("sendfile", got, want)))
		}
	}
}

// An append does not overwrite data written just before by a program of the mount, even if the
// server does not have it yet.
func TestAppendBesideAWriter(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	w, err := os.Create(m.at("file"))
	must.Succeed(t, err)
	defer w.Close()
	f, err := os.OpenFile(m.at("file"), os.O_WRONLY|os.O_APPEND, 0)
	must.Succeed(t, err)
	defer f.Close()
	var want []byte
	for i := range 50 {
		text := fmt.Sprintf("written %d;", i)
		_, err = w.WriteAt([]byte(text), int64(len(want)))
		must.Succeed(t, err)
		_, err = f.WriteString("appended;")
		must.Succeed(t, err)
		want = append(append(want, text...), "appended;"...)
	}
	must.Succeed(t, errors.Join(f.Close(), w.Close()))
	got, err := os.ReadFile(m.there("file"))
	must.Succeed(t, errors.Join(err, same("the server", got, want)))
}

// An append to a file open with O_SYNC is on the server when it returns.
func TestSynchronousAppend(t *testing.T) {
	m := mount(t, options{})
	for i, flag := range []int{syscall.O_SYNC, syscall.O_DSYNC, syscall.O_SYNC | syscall.O_DIRECT} {
		name := fmt.Sprint(i)
		f, err := os.OpenFile(m.at(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE|flag, 0o644)
		must.Succeed(t, err)
		defer f.Close()
		for n := range 3 {
			_, err = f.WriteString("line\n")
			must.Succeed(t, err)
			got, err := os.ReadFile(m.there(name))
			must.Succeed(t, errors.Join(err, same("the server", got, bytes.Repeat([]byte("line\n"), n+1))))
		}
	}
}

// A change shown to the kernel by an open needs no notice. Such a notice would void the size in the
// next reply, and pages read since the open.
func TestLateNoticeIsLeftOut(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	read := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != want {
			t.Errorf("read %q, %v, want %q", got, err, want)
		}
	}
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before"), 0o600))
	m.cached("READ", func() { read("before") })
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("after, and longer"), 0o600))
	read("after, and longer")
	before := m.stats().Operations["READ"]
	m.say("send notices")
	read("after, and longer")
	if got := m.stats().Operations["READ"]; got != before {
		t.Errorf("%d READs after a notice, want none", got-before)
	}
}

// A program has a file open with only its first page cached. It reads no zeros after another client
// has truncated the file, even if the mount polls open files often.
func TestCutFileShowsNoZeros(t *testing.T) {
	for _, trusted := range []time.Duration{long, 10 * time.Millisecond} {
		m := mount(t, options{AcMin: trusted, AcMax: trusted})
		must.Succeed(t, os.WriteFile(m.at("file"), nil, 0o644))
		f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
		must.Succeed(t, err)
		defer f.Close()
		data, buf := bytes.Repeat([]byte("o"), 4401), make([]byte, 8192)
		for i := range 300 {
			_, err := f.WriteAt(data, 0) // fills the second page only in part
			must.Succeed(t, err)
			must.Succeed(t, f.Sync())
			must.Succeed(t, os.Truncate(m.there("file"), 0))
			n, err := f.ReadAt(buf, 0)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("read: %v", err)
			}
			if bytes.IndexByte(buf[:n], 0) >= 0 {
				t.Fatalf("trusted for %v, round %d: got %d bytes with zeros, want none", trusted, i, n)
			}
		}
	}
}

// After an open with O_TRUNC, data stored before through a mapping and foreign changes are gone.
func TestTruncatingOpenSendsNoPages(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.at("file"), bytes.Repeat([]byte("o"), 5000), 0o644))
	f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer f.Close()
	p, err := unix.Mmap(int(f.Fd()), 0, 5000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.Succeed(t, err)
	defer func() { must.Succeed(t, unix.Munmap(p)) }()
	p[100], p[4999] = 'M', 'M'
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("another client's"), 0o644))
	g, err := os.OpenFile(m.at("file"), os.O_WRONLY|os.O_TRUNC, 0)
	must.Succeed(t, err)
	must.Succeed(t, g.Close())
	must.Succeed(t, f.Sync())
	got, err := os.ReadFile(m.there("file"))
	must.Succeed(t, errors.Join(err, same("the server", got, nil)))
}

// After an append to a file that another client has extended, programs with the file open see all
// of it, without fetching attributes.
func TestAppendAfterAnothersIsSeen(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for _, how := range []int{os.O_APPEND, 0} { // O_APPEND at open, or set later by F_SETFL
		name := fmt.Sprint("file", how)
		must.Succeed(t, os.WriteFile(m.at(name), matrixBase, 0o644))
		reader, err := os.OpenFile(m.at(name), os.O_RDWR, 0)
		must.Succeed(t, err)
		defer reader.Close()
		_, err = io.ReadAll(reader)
		must.Succeed(t, err)
		f, err := os.OpenFile(m.at(name), os.O_WRONLY|how, 0)
		must.Succeed(t, err)
		defer f.Close()
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, unix.O_APPEND)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(m.there(name), append(bytes.Clone(matrixBase), "another's"...), 0o644))
		_, err = f.WriteString("ours")
		must.Succeed(t, err)
		must.Succeed(t, f.Sync())
		want, err := os.ReadFile(m.there(name))
		must.Succeed(t, errors.Join(err, same("the server", want, append(bytes.Clone(matrixBase), "another'sours"...))))
		sent := func() error {
			got, err := pipedBy(reader, func(out, count int) (int, error) {
				return unix.Sendfile(out, int(reader.Fd()), nil, count)
			})
			return errors.Join(err, same("sendfile", got, want))
		}
		if how == os.O_APPEND {
			must.Succeed(t, sent())
			continue
		}
		must.Become(t, "the pages that the kernel has filled in the wrong place are gone", func() bool {
			_, err := reader.Stat()
			return err == nil && sent() == nil
		})
	}
}

// An append to a file rewritten by another client with the same size leaves no old page.
func TestAppendShowsARewrite(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.at("file"), bytes.Repeat([]byte("o"), 9000), 0o644))
	f, err := os.OpenFile(m.at("file"), os.O_RDWR|os.O_APPEND, 0)
	must.Succeed(t, err)
	defer f.Close()
	reader, err := os.Open(m.at("file"))
	must.Succeed(t, err)
	defer reader.Close()
	_, err = io.ReadAll(reader)
	must.Succeed(t, err)
	m.say("hold notices")
	want := bytes.Repeat([]byte("n"), 9000)
	must.Succeed(t, os.WriteFile(m.there("file"), want, 0o644))
	_, err = f.WriteString("ours")
	must.Succeed(t, err)
	got, err := io.ReadAll(io.NewSectionReader(reader, 0, 1<<20))
	must.Succeed(t, errors.Join(err, same("read", got, append(want, "ours"...))))
}

// A listing shows a larger size. It does not extend an open file while the kernel caches the page
// at the previous end, where zeros follow.
func TestListingShowsNoZeros(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before"), 0o644))
	f, err := os.Open(m.at("file"))
	must.Succeed(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	must.Succeed(t, err)
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before and after"), 0o644))
	_, err = os.ReadDir(m.dir)
	must.Succeed(t, err)
	got := make([]byte, 10)
	n, err := unix.Pread(int(f.Fd()), got, 6)
	must.Succeed(t, err)
	if n > 0 && string(got[:n]) != " and after" {
		t.Errorf("got %q, want nothing or the written data", got[:n])
	}
}

// Under a lock another client's data is visible even if no attribute shows it.
func TestLockDoesNotBelieveTimes(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before"), 0o644))
	was, err := os.Stat(m.there("file"))
	must.Succeed(t, err)
	f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("after!"), 0o644))
	must.Succeed(t, os.Chtimes(m.there("file"), was.ModTime(), was.ModTime()))
	must.Succeed(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	must.Succeed(t, errors.Join(err, same("read", got, []byte("after!"))))
}

// A file is truncated here, the kernel has that size, and another client extends the file. It is
// complete at the next open.
func TestGrownAfterACut(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	base := bytes.Repeat([]byte("o"), 9000)
	for name, cut := range map[string]func(t *testing.T, open *os.File){
		"own truncate": func(t *testing.T, open *os.File) { must.Succeed(t, os.Truncate(open.Name(), 100)) },
		"own open": func(t *testing.T, open *os.File) {
			f, err := os.OpenFile(open.Name(), os.O_WRONLY|os.O_TRUNC, 0)
			must.Succeed(t, err)
			must.Succeed(t, f.Close())
		},
		"stat": func(t *testing.T, open *os.File) {
			must.Succeed(t, open.Close())
			must.Succeed(t, os.Truncate(m.there("stat"), 100))
			m.say("sleep") // voids attributes, so they are fetched again
			must.Become(t, "the file is seen to be cut", func() bool {
				fi, err := os.Stat(m.at("stat"))
				return err == nil && fi.Size() == 100
			})
		},
		"read": func(t *testing.T, open *os.File) {
			must.Succeed(t, os.Truncate(m.there("read"), 100))
			must.Become(t, "a page is read that is not there", func() bool {
				must.Succeed(t, unix.Fadvise(int(open.Fd()), 0, 0, unix.FADV_DONTNEED))
				n, err := unix.Pread(int(open.Fd()), make([]byte, 10), 0)
				must.Succeed(t, err)
				n2, err := unix.Pread(int(open.Fd()), make([]byte, 10), 5000)
				must.Succeed(t, err)
				return n == 10 && n2 == 0
			})
		},
		"chmod": func(t *testing.T, open *os.File) {
			must.Succeed(t, os.Truncate(m.there("chmod"), 100))
			must.Succeed(t, os.Chmod(open.Name(), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Succeed(t, os.WriteFile(m.at(name), base, 0o644))
			open, err := os.OpenFile(m.at(name), os.O_RDWR, 0)
			must.Succeed(t, err)
			defer open.Close()
			_, err = io.ReadAll(open)
			must.Succeed(t, err)
			cut(t, open)
			want := bytes.Repeat([]byte("g"), 5000)
			must.Succeed(t, os.WriteFile(m.there(name), want, 0o644))
			f, err := os.Open(m.at(name))
			must.Succeed(t, err)
			defer f.Close()
			got, err := pipedBy(f, func(out, count int) (int, error) {
				return unix.Sendfile(out, int(f.Fd()), nil, count)
			})
			must.Succeed(t, errors.Join(err, same("sendfile", got, want)))
		})
	}
}

// SEEK_END finds the end that another client has set, even if the kernel's size is larger and only
// now fetches attributes.
func TestSeekEndAfterACut(t *testing.T) {
	for _, noac := range []bool{false, true} {
		opt := options{NoAC: noac}
		if !noac {
			opt.AcMin, opt.AcMax = long, long
		}
		m := mount(t, opt)
		for i := range 20 {
			name := fmt.Sprint("file", i)
			must.Succeed(t, os.WriteFile(m.at(name), matrixBase, 0o644))
			f, err := os.OpenFile(m.at(name), os.O_RDWR|os.O_APPEND, 0)
			must.Succeed(t, err)
			defer f.Close()
			_, err = io.ReadAll(f)
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(m.there(name), []byte("cut"), 0o644))
			want := int64(3)
			if !noac { // the append's reply shows the file's new state
				_, err = f.WriteString("appended")
				must.Succeed(t, err)
				want += 8
			}
			if end, err := f.Seek(0, io.SeekEnd); err != nil || end != want {
				t.Errorf("noac %t, round %d: the end is at %d, %v, want %d", noac, i, end, err, want)
			}
		}
	}
}

// An open finds that another client has extended the file, and a program here truncates it
// meanwhile. The kernel keeps the smaller size.
func TestCutBesideAnOpenThatFindsMore(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, Slow: true})
	must.Succeed(t, os.WriteFile(m.there("f"), []byte("content"), 0o644))
	f, err := os.OpenFile(m.at("f"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer f.Close()
	must.Succeed(t, os.Truncate(m.there("f"), slowAt+10))
	m.say("hold reads")
	opened := make(chan error, 1)
	go func() {
		g, err := os.Open(m.at("f"))
		if err == nil {
			err = g.Close()
		}
		opened <- err
	}()
	m.say("await a read") // the mount's READ of the last byte
	err = f.Truncate(5)
	m.say("answer reads")
	must.Succeed(t, err)
	must.Succeed(t, <-opened)
	var st unix.Statx_t
	must.Succeed(t, unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_SIZE, &st))
	if st.Size != 5 {
		t.Errorf("the kernel has %d bytes, want 5", st.Size)
	}
}

// SEEK_END finds the end, even if the kernel kept a larger size at the last open, and another
// client has changed the file since.
func TestSeekEndAfterAnOpen(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.at("file"), matrixBase, 0o644))
	f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	must.Succeed(t, err)
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("cut"), 0o644))
	g, err := os.Open(m.at("file"))
	must.Succeed(t, err)
	must.Succeed(t, g.Close())
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("CUT"), 0o644))
	m.say("sleep") // voids attributes, so they are fetched again
	if end, err := f.Seek(0, io.SeekEnd); err != nil || end != 3 {
		t.Errorf("the end is at %d, %v, want 3", end, err)
	}
}

// Another client has extended an open file, and changes it again while the mount answers fstat. The
// kernel has fstat's size, or the last one.
func TestFileChangesBesideFstat(t *testing.T) {
	m := mountTwin(t, options{AcMin: long, AcMax: long}, false, true)
	for name, change := range map[string]func(path string) error{
		"longer":  func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("n"), 9000), 0o644) },
		"shorter": func(path string) error { return os.WriteFile(path, []byte("cut"), 0o644) },
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(m.at(name))
			must.Succeed(t, err)
			defer f.Close()
			must.Succeed(t, os.WriteFile(m.twin(name), matrixBase, 0o644))
			_, err = os.ReadDir(m.dir) // fetches the attributes that fstat will return
			must.Succeed(t, errors.Join(err, change(m.twin(name))))
			fi, err := f.Stat()
			var got []byte
			if err == nil {
				got, err = pipedBy(f, func(out, count int) (int, error) { return unix.Sendfile(out, int(f.Fd()), nil, count) })
			}
			if errors.Is(err, syscall.ESTALE) && name == "removed" {
				return // allowed, but not certain: the server may have the file open
			}
			must.Succeed(t, err)
			if string(got) != "cut" && int64(len(got)) < fi.Size() {
				t.Errorf("got %d bytes by sendfile, want the %d that fstat shows", len(got), fi.Size())
			}
		})
	}
}

// After fstat of an open file that another client has truncated and rewritten, reads return the new
// content.
func TestCutAndChangedIsReadAfterFstat(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.there("f"), []byte("content"), 0o644))
	f, err := os.Open(m.at("f"))
	must.Succeed(t, err)
	defer f.Close()
	_, err = io.ReadAll(f)
	must.Succeed(t, err)
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.there("f"), []byte("new"), 0o644))
	m.say("sleep") // makes the attributes too old
	_, err = f.Stat()
	must.Succeed(t, err)
	b := make([]byte, 10)
	n, err := unix.Pread(int(f.Fd()), b, 0)
	must.Succeed(t, errors.Join(err, same("pread", b[:n], []byte("new"))))
}

// With noac SEEK_END finds the end, although a notice may have voided the reply with the size, and
// another client has changed the file since.
func TestSeekEndBesideNotices(t *testing.T) {
	m := mount(t, options{NoAC: true})
	for i := range 200 {
		must.Succeed(t, os.WriteFile(m.there("file"), matrixBase, 0o644))
		_, err := os.Stat(m.at("file"))
		must.Succeed(t, err)
		m.say("hold notices")
		must.Succeed(t, os.WriteFile(m.there("file"), matrixBase, 0o644))
		_, err = os.Stat(m.at("file")) // sees the change; from now on a notice waits
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(m.there("file"), []byte("cut"), 0o644))
		m.say("let notices go")
		f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(m.there("file"), []byte("CUT"), 0o644))
		end, err := f.Seek(0, io.SeekEnd)
		must.Succeed(t, f.Close())
		if err != nil || end != 3 {
			t.Fatalf("round %d: the end is at %d, %v, want 3", i, end, err)
		}
	}
}
