// Who is told of what there is to be read.

package fuseloop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// tells reports whether Go's poller is told of something.
func tells(t *testing.T, d *device) (yes bool) {
	t.Helper()
	err := d.conn.Control(func(ep uintptr) {
		p := []unix.PollFd{{Fd: int32(ep), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		if err != nil {
			t.Error(err)
		}
		yes = n > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// The poller is told of a message for which the reader sleeps, and of none that the reader finds
// itself.
func TestPollerIsArmedOnlyWhileTheReaderParks(t *testing.T) {
	k, fd := connect(t)
	d, err := openDevice(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	buf := make([]byte, 1<<10)
	tries := 0
	read := func() bool {
		tries++
		n, errno := read(uintptr(d.fd), buf)
		if errno != 0 && errno != unix.EAGAIN || errno == 0 && n == 0 {
			t.Errorf("%d bytes, %v", n, errno)
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
						k.send(getattrMessage(2, 1)) // before the device is armed, or after
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
		t.Fatal(err)
	}
	quiet("after a wait for what was there")
}

// What has been read or waits makes no difference to whether the kernel has the mount; its end
// does, before anybody has read that.
func TestConnected(t *testing.T) {
	k, fd := connect(t)
	d, err := openDevice(fd)
	if err != nil {
		t.Fatal(err)
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
