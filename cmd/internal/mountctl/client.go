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

// ErrNoProcess means that a mount's process no longer exists: it was killed.
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

// Stats decodes the process's figures, in JSON, into v.
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
		return ErrNoProcess // the mount has ended after Dial
	}
	return json.Unmarshal(m.Stats, v)
}

// read returns the next message.
func (c *Conn) read() (m message, err error) {
	line, err := c.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	return m, err
}

// ErrHeld means: all written data is stable, but the kernel still has the mount.
var ErrHeld = errors.New("another mount namespace has it")

// Wait returns when the process has written all data back and ends. The error is about lost data,
// or is ctx's. If the data is written but the kernel still has the mount, as it may be about to
// release it, Wait returns ErrHeld and can be called again. Call Stats on the Conn before: only
// then has the process surely accepted the connection.
func (c *Conn) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.c.SetDeadline(time.Now()) })
	defer stop()
	_, _ = c.c.Write([]byte(askHeld + "\n")) // fails if the end has already been reported
	m, err := c.read()
	for err == nil && m.Held != nil && !m.Held.Kept {
		m, err = c.read() // the end message is next
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
