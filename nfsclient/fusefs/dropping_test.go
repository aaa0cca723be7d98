// Pages that cannot be dropped, because the server does not answer the READ that fills one.

package fusefs_test

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// asksFor has f read at off, and reports whether the mount is asked for that. ended is closed when
// the read has ended.
func (m *mounted) asksFor(f *os.File, off int64) (ended chan struct{}, asked bool) {
	m.t.Helper()
	before := m.stats().Operations["READ"]
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = f.ReadAt(make([]byte, 1), off)
	}()
	eventually(m.t, "a read asks or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			asked = m.stats().Operations["READ"] > before
			return asked
		}
	})
	return ended, asked
}

// TestSilentServerLeavesOthersFree: a page of a file waits for the server, and so pages of the file
// that another client has changed cannot be dropped. A program that opens the file meanwhile can be
// killed, and notices of other files are sent.
func TestSilentServerLeavesOthersFree(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, NoCTO: true})
	const size = 1 << 30 // much more than is read ahead
	names := []string{"stuck", "free"}
	var files []*os.File
	for _, name := range names {
		must(t, os.WriteFile(m.there(name), []byte("before"), 0o644))
		must(t, os.Truncate(m.there(name), size))
		f, err := os.Open(m.at(name))
		must(t, err)
		defer f.Close()
		_, err = f.ReadAt(make([]byte, 1), 0)
		must(t, err)
		files = append(files, f)
	}
	m.say("hold notices")
	for _, name := range names {
		f, err := os.OpenFile(m.there(name), os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt([]byte("after!"), 0)
		must(t, err)
		must(t, f.Close())
	}
	_, err := os.ReadDir(m.dir) // brings their new attributes
	must(t, err)
	for _, name := range names {
		must(t, unix.Access(m.at(name), unix.R_OK)) // the open asks no more
	}

	m.say("stall")
	stuck, asked := m.asksFor(files[0], size-1)
	var free chan struct{}
	defer func() {
		m.say("go")
		<-stuck
		if free != nil {
			<-free
		}
	}()
	if !asked {
		t.Fatal("the read asks nothing of the server")
	}
	opens := m.stats().Operations["OPEN"]
	cat := exec.Command("cat", m.at("stuck"))
	must(t, cat.Start())
	eventually(t, "the program opens the file", func() bool { return m.stats().Operations["OPEN"] > opens })
	must(t, cat.Process.Kill())
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		_ = cat.Wait()
	}()
	eventually(t, "the program is dead", func() bool {
		select {
		case <-dead:
			return true
		default:
			return false
		}
	})

	m.say("let notices go")
	eventually(t, "the page of the other file is dropped", func() (asked bool) {
		free, asked = m.asksFor(files[1], 0)
		return asked
	})
}
