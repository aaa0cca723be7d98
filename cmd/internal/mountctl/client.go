// The commands' end of the socket.

package mountctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"
)

// ErrNoProcess is a mount that no process serves any more: it was killed.
var ErrNoProcess = errors.New("the process that served the mount is gone")

// A Conn is a connection to the process of a mount. It belongs to one goroutine.
type Conn struct {
	c  *net.UnixConn
	in *bufio.Reader
}

// Dial connects to the process of a mount.
func Dial(m Mount) (*Conn, error) {
	var last error
	for _, dir := range socketDirs(m.UID) {
		if err := checkDir(dir, m.UID); err != nil {
			last = err
			continue
		}
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socketName(dir, m), Net: "unix"})
		if err != nil {
			last = err
			continue
		}
		if uid, ok := peer(c); !ok || uid != m.UID {
			c.Close()
			last = fmt.Errorf("user %d answers for a mount of user %d", uid, m.UID)
			continue
		}
		return &Conn{c, bufio.NewReader(c)}, nil
	}
	if errors.Is(last, fs.ErrPermission) {
		return nil, fmt.Errorf("%s: only root and the user who mounted it (%d) can ask", m.Dir, m.UID)
	}
	return nil, fmt.Errorf("%w (%v)", ErrNoProcess, last)
}

// Stats reads the figures into v, by their JSON.
func (c *Conn) Stats(v any) error {
	_ = c.c.SetDeadline(time.Now().Add(patience))
	defer c.c.SetDeadline(time.Time{})
	if _, err := c.c.Write([]byte(askStats + "\n")); err != nil {
		return err
	}
	m, err := c.read()
	switch {
	case err != nil:
		return err
	case m.Stats == nil:
		return ErrNoProcess // it ended meanwhile
	}
	return json.Unmarshal(m.Stats, v)
}

// read takes the next message.
func (c *Conn) read() (m message, err error) {
	line, err := c.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	return m, err
}

// ErrHeld is a mount that the kernel still has when all that was written is stable.
var ErrHeld = errors.New("another mount namespace has it")

// Wait returns when the process has written everything back and ends; the error is
// that of data that could not be written, or of ctx. It returns with ErrHeld when everything is written and the kernel has not let
// go of the mount, as it may be about to: then it can be called again. The Conn must have given
// figures before: only then is it sure that the process has taken the connection.
func (c *Conn) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Now()) })
	defer stop()
	_, _ = c.c.Write([]byte(askHeld + "\n")) // fails where the end has been told already
	m, err := c.read()
	for err == nil && m.Held != nil && !m.Held.Kept {
		m, err = c.read() // the end is next
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil && m.Held != nil && m.Held.Error != "":
		return errors.New(m.Held.Error)
	case err == nil && m.Held != nil:
		return ErrHeld
	case err != nil || m.End == nil:
		return errors.New("the mount process ended before it reported that everything is written: what was not synced may be lost")
	case m.End.Error != "":
		return errors.New(m.End.Error)
	}
	return nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }
