// Unmounting: waits, cleared mounts, remaining mounts, and the line for the user.

package mounter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// Unmount waits for the mount's process, and its error is about the data that the process could not
// write.
func TestUnmountGivesTheResultOfTheProcess(t *testing.T) {
	for _, result := range []error{nil, errors.New("2 files could not be written: no space left on device")} {
		m := mountFUSE(t, "fuse.nfsrdma", "srv:/end")
		s := m.serving(t, struct{}{})
		finished := make(chan struct{})
		go func() {
			<-m.gone // like a mount's process, which first writes back and then reports
			s.Close(result)
			close(finished)
		}()
		var notes bytes.Buffer
		err := Unmount(t.Context(), m.dir, false, &notes)
		if mounted(t, m.dir) {
			t.Fatal("still mounted")
		}
		if <-finished; result == nil && err != nil || notes.Len() > 0 {
			t.Errorf("%v, %q", err, &notes)
		}
		if result != nil {
			says(t, err, m.dir, result.Error())
		}
	}
}

// Ctrl-C ends the wait, but the unmount continues.
func TestInterruptedUnmount(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/interrupted")
	s := m.serving(t, struct{}{})
	defer s.Close(nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-m.gone; cancel() }()
	if err := Unmount(ctx, m.dir, false, new(bytes.Buffer)); !errors.Is(err, context.Canceled) || mounted(t, m.dir) {
		t.Errorf("%v", err)
	}
}

// The mount of a killed process is removed, and the note mentions possible data loss.
func TestUnmountClearsWhatIsLeft(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/killed")
	m.kill()
	var notes bytes.Buffer
	if err := Unmount(t.Context(), m.dir, false, &notes); err != nil || mounted(t, m.dir) {
		t.Errorf("%v", err)
	}
	if want := "nfsrdma: " + m.dir + ": its process was gone already: what programs had not synced may be lost\n"; notes.String() != want {
		t.Errorf("%q, want %q", &notes, want)
	}
	says(t, Unmount(t.Context(), m.dir, false, &notes), m.dir, "not mounted")
}

// A mount can be unmounted by its source as well as by its directory.
func TestUnmountBySource(t *testing.T) {
	source := "srv:" + t.TempDir()
	m := mountFUSE(t, "fuse.nfsrdma", source)
	m.kill()
	var notes bytes.Buffer
	if err := Unmount(t.Context(), source, false, &notes); err != nil || mounted(t, m.dir) || !bytes.Contains(notes.Bytes(), []byte(source+": its process")) {
		t.Errorf("%v, %q", err, &notes)
	}
}

// A process that accepts the connection and returns no figures is about to end: Unmount does not
// wait for it.
func TestUnmountDoesNotWaitForAProcessThatDoesNotAnswer(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/mute")
	s := m.serving(t, func() {}) // a func has no JSON form, so the server closes the connection
	defer s.Close(errors.New("nobody listens"))
	var notes bytes.Buffer
	if err := Unmount(t.Context(), m.dir, false, &notes); err != nil || mounted(t, m.dir) || !bytes.Contains(notes.Bytes(), []byte("was gone already")) {
		t.Errorf("%v, %q", err, &notes)
	}
}

// A mount in use stays, and the line says how to find its users; --lazy detaches it at once without
// waiting.
func TestUnmountOfWhatIsInUse(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/busy")
	s := m.serving(t, struct{}{})
	defer s.Close(nil)
	release := holdOpen(t, m.dir)
	defer release()
	var notes bytes.Buffer
	says(t, Unmount(t.Context(), m.dir, false, &notes), m.dir, "busy", "lsof "+m.dir, "--lazy")
	if !mounted(t, m.dir) {
		t.Fatal("it was unmounted")
	}
	if err := Unmount(t.Context(), m.dir, true, &notes); err != nil || mounted(t, m.dir) || notes.Len() > 0 {
		t.Errorf("--lazy: %v, %q", err, &notes)
	}
	select {
	case <-m.gone:
		t.Error("the mount has ended while it is in use")
	default:
	}
	release()
	<-m.gone
}

// If another mount of the same file system exists, Unmount does not wait for the process, and its
// error names that mount. The later Unmount of that mount waits.
func TestUnmountOfOneOfTwo(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/twice")
	s := m.serving(t, struct{}{})
	second := t.TempDir()
	must.Succeed(t, unix.Mount(m.dir, second, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(second, unix.MNT_DETACH) })
	// stderr is dropped, because lines about a slow process depend on this machine
	err := Unmount(t.Context(), m.dir, false, io.Discard)
	var held *HeldError
	if !errors.As(err, &held) || held.Dir != second {
		t.Errorf("%v, want one about %s", err, second)
	}
	if mounted(t, m.dir) {
		t.Errorf("%s is still mounted", m.dir)
	}
	says(t, err, m.dir, "unmounted", "is stable", second)
	go func() {
		<-m.gone
		s.Close(nil)
	}()
	if err := Unmount(t.Context(), second, false, io.Discard); err != nil {
		t.Errorf("the last one: %v", err)
	}
}

// A mount of another type is left alone, and the error names its type.
func TestUnmountLeavesOtherMounts(t *testing.T) {
	m := mountFUSE(t, "fuse.other", "srv:/other")
	for _, lazy := range []bool{false, true} {
		says(t, Unmount(t.Context(), m.dir, lazy, new(bytes.Buffer)), m.dir, "fuse.other", "umount(8)")
	}
	if !mounted(t, m.dir) {
		t.Error("it was unmounted")
	}
}

// A covered mount is not unmounted, because its directory shows the mount above it.
func TestUnmountBelowAnotherMount(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:"+t.TempDir())
	m.kill()
	must.Succeed(t, unix.Mount("none", m.dir, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { _ = unix.Unmount(m.dir, unix.MNT_DETACH) })
	says(t, Unmount(t.Context(), m.dir, false, new(bytes.Buffer)), m.dir, "tmpfs", "umount(8)")
	must.Succeed(t, unix.Unmount(m.dir, 0))
	if err := Unmount(t.Context(), m.dir, false, new(bytes.Buffer)); err != nil || mounted(t, m.dir) {
		t.Errorf("once it shows again: %v", err)
	}
}
