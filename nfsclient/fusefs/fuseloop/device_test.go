// Events of the network poller for the reader.

package fuseloop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// tells reports whether Go's poller gets an event from the device.
func tells(t *testing.T, d *device) (yes bool) {
	t.Helper()
	err := d.conn.Control(func(ep uintptr) {
		p := []unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		if err != nil {
			t.Errorf("poll: %v", err)
		}
		yes = n > 0
	})
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	return yes
}

// The poller gets an event if the reader is parked, and none if the reader finds the message
// itself.
func TestPollerIsArmedOnlyWhileTheReaderParks(t *testing.T) {
	k, fd := connect(t)
	d, err := openDevice(fd)
	if err != nil {
		t.Fatalf("open device: %v", err)
	}
	defer d.close()
	buf := make([]byte, 1<<10)
	tries := 0
	read := func() bool {
		tries++
		n, errno := read(uintptr(d.fd), buf)
		switch errno {
		case 0:
			if n == 0 {
				t.Error("read returns no bytes and no error, want a message")
			}
		case unix.EAGAIN:
		default:
			t.Errorf("read: got %v, want a message or %v", errno, unix.EAGAIN)
		}
		return errno == 0
	}
	quiet := func(when string) {
		t.Helper()
		k.send(getattrMessage(1, 1))
		if tells(t, d) {
			t.Errorf("the poller is told of a message %s", when)
		}
		if !read() {
			t.Fatalf("no message %s", when)
		}
	}
	sleep := func() {
		t.Helper()
		tries = 0
		sent := make(chan struct{})
		err := d.await(func() bool {
			if !read() {
				if tries == 1 {
					go func() {
						// the device is armed by now, or still is not
						k.send(getattrMessage(2, 1))
						close(sent)
					}()
				}
				return false
			}
			return true
		})
		if err != nil || tries < 2 {
			t.Fatalf("%v, %d reads", err, tries)
		}
		<-sent
	}
	quiet("before the first wait")
	for range 10 {
		sleep()
		quiet("after a wait")
	}
	k.send(getattrMessage(3, 1))
	if err := d.await(read); err != nil {
		t.Fatalf("await: %v", err)
	}
	quiet("after a wait for what was there")
}

// Read or waiting messages do not affect Connected. The end of the connection does, before the
// reader sees it.
func TestConnected(t *testing.T) {
	k, fd := connect(t)
	d, err := openDevice(fd)
	if err != nil {
		t.Fatalf("open device: %v", err)
	}
	if !d.connected() {
		t.Error("not connected at first")
	}
	k.send(getattrMessage(1, 1))
	if !d.connected() {
		t.Error("not connected with a message to read")
	}
	k.socket.Close()
	if d.connected() {
		t.Error("connected after the end")
	}
	d.close()
	if d.connected() {
		t.Error("connected without a descriptor")
	}
}
