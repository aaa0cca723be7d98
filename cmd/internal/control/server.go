// The server's end of the socket.

package control

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	requestWait = 10 * time.Second // limit for receiving a whole request
	replyWait   = 10 * time.Second // limit for delivering a whole reply
	maxConns    = 32               // connections at the same time
	dirWait     = 5 * time.Second  // limit for other servers that are starting
)

// ErrTaken is returned by Listen for a path where another server answers.
var ErrTaken = errors.New("another server's")

// A Server answers requests at one socket.
type Server struct {
	// The next fields are set once.
	listener *net.UnixListener
	answer   func(command string) (any, error)
	slots    chan struct{} // holds one element per connection
}

// Listen makes the socket and answers requests until Close: with answer's result as JSON, or with
// answer's error. answer is called concurrently. A socket left behind by a killed server is
// replaced. If another server answers at path, the error is ErrTaken.
func Listen(path string, answer func(command string) (any, error)) (*Server, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	defer lockDir(filepath.Dir(path))()
	if old, err := net.Dial("unix", path); err == nil {
		old.Close()
		return nil, fmt.Errorf("%s is %w", path, ErrTaken)
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		os.Remove(path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// A peer that connects before the Chmod is still checked by its credentials.
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	s := &Server{listener: l, answer: answer, slots: make(chan struct{}, maxConns)}
	go s.acceptLoop()
	return s, nil
}

// lockDir holds a lock on the directory until unlock is called. A new socket does not answer at
// once. Without the lock, another starting server would take the socket for a killed server's. The
// wait is limited, because any user can lock some directories.
func lockDir(dir string) (unlock func()) {
	d, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for begin := time.Now(); unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK && time.Since(begin) < dirWait; {
		time.Sleep(5 * time.Millisecond)
	}
	return func() { d.Close() }
}

// Close removes the socket. Running requests are still answered.
func (s *Server) Close() error { return s.listener.Close() }

func (s *Server) acceptLoop() {
	for {
		c, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // for example no free descriptors
			time.Sleep(50 * time.Millisecond)
			continue
		}
		select {
		case s.slots <- struct{}{}:
			go func() {
				s.serve(c)
				<-s.slots
			}()
		default:
			c.Close()
		}
	}
}

// serve answers one request.
func (s *Server) serve(c *net.UnixConn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(requestWait))
	var line []byte
	if !ownPeer(c) {
		line = encodeReply(nil, fmt.Errorf("only root and user %d, who runs the server, are answered", os.Geteuid()))
	} else if text, err := bufio.NewReaderSize(c, maxRequest).ReadSlice('\n'); errors.Is(err, bufio.ErrBufferFull) {
		line = encodeReply(nil, errNotARequest)
	} else if err != nil {
		return
	} else if command, err := parseRequest(text); err != nil {
		line = encodeReply(nil, err)
	} else {
		line = encodeReply(s.answer(command))
	}
	_ = c.SetDeadline(time.Now().Add(replyWait))
	_, _ = c.Write(line) // a failed write means that the peer has gone
}

// ownPeer reports whether root or the user who runs the server is at the other end.
func ownPeer(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); cerr != nil || err != nil {
		return false
	}
	return cred.Uid == 0 || cred.Uid == uint32(os.Geteuid())
}
