// Unmounting: waits for all written data, and clears a mount with a dead process.

package mounter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"golang.org/x/sys/unix"
)

// unmountNoFollow is UMOUNT_NOFOLLOW of umount2(2).
const unmountNoFollow = 8

// noticeDelay is the delay before a waiting user is informed. Tests set a longer delay for busy
// machines.
var noticeDelay = 3 * time.Second

// After unmounting, the kernel is asked up to heldChecks times, every heldInterval, whether it
// still has the mount. After the last check the cause must be another mount, and not a program in
// the mount.
const (
	heldInterval = 500 * time.Millisecond
	heldChecks   = 10
)

// A HeldError means that the mount is unmounted but its process continues, because another mount of
// it exists. All written data is stable.
type HeldError struct {
	Name string // as given by the user
	Dir  string // the other mount's directory; "": in another mount namespace
}

func (e *HeldError) Error() string {
	text := e.Name + ": unmounted, and what was written is stable; "
	if e.Dir != "" {
		return text + "it is mounted on " + e.Dir + " as well, for which its process goes on"
	}
	return text + "another mount namespace still has the mount, and its process goes on for that"
}

// Unmount unmounts arg. It returns when all written data is stable on the server and the mount's
// process ends; the error is a HeldError if the process continues. With lazy it removes the mount
// from the tree and does not wait: the mount ends with its last use. notes gets lines for the user
// during the wait.
func Unmount(ctx context.Context, arg string, lazy bool, notes io.Writer) error {
	m, err := mountctl.Find(arg)
	if err != nil {
		return err
	}
	c, err := dialServing(m)
	if err != nil && !errors.Is(err, mountctl.ErrNoProcess) && !lazy {
		return err
	}
	if c != nil {
		defer c.Close()
	}
	switch err := detach(m.Dir, lazy); {
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%s: busy: programs have files or directories in it open (lsof %s shows which); --lazy detaches it all the same", arg, arg)
	case err != nil:
		return fmt.Errorf("%s: %w", arg, err)
	case lazy:
		return nil
	case c == nil:
		fmt.Fprintf(notes, "nfsrdma: %s: its process was gone already: what programs had not synced may be lost\n", arg)
		return nil
	}
	wait := time.AfterFunc(noticeDelay, func() {
		fmt.Fprintf(notes, "nfsrdma: %s: unmounted; waiting until everything is written (Ctrl-C ends the wait)\n", arg)
	})
	defer wait.Stop()
	err = c.Wait(ctx)
	for looks := 1; errors.Is(err, mountctl.ErrHeld); looks++ {
		if wait.Stop(); looks == heldChecks {
			return heldError(arg, m)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(heldInterval):
		}
		err = c.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", arg, err)
	}
	return nil
}

// heldError returns the error of a mount that the kernel keeps.
func heldError(arg string, m mountctl.Mount) error {
	e := &HeldError{Name: arg}
	if other, ok := mountctl.Listed(unix.Mkdev(0, uint32(m.Minor))); ok {
		e.Dir = other.Dir
	}
	return e
}

// dialServing connects to a mount's process and exchanges one message. Only after the message has
// the process surely accepted the connection, and it will report its end on the connection.
func dialServing(m mountctl.Mount) (*mountctl.Conn, error) {
	c, err := mountctl.Dial(m)
	if err != nil {
		return nil, err
	}
	var figures json.RawMessage
	if err := c.Stats(&figures); err != nil {
		c.Close()
		return nil, fmt.Errorf("%w (%v)", mountctl.ErrNoProcess, err)
	}
	return c, nil
}

// fusermount unmounts for an ordinary user. The helper's message becomes the error.
func fusermount(dir string, lazy bool) error {
	args := []string{"-u", "--", dir}
	if lazy {
		args = []string{"-u", "-z", "--", dir}
	}
	bin, err := fuseHelper()
	if err != nil {
		return errors.New("unmounting without being root needs fusermount3: install the package fuse3")
	}
	cmd := exec.Command(bin, args...)
	var out bytes.Buffer
	cmd.Stderr = &out
	err = cmd.Run()
	text := strings.TrimSpace(out.String())
	switch {
	case err == nil:
		return nil
	case strings.Contains(text, "busy"):
		return syscall.EBUSY
	case text != "":
		return errors.New(text)
	}
	return err
}
