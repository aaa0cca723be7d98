// The process's end of the socket: figures, and the mount's result.

package mountctl

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// The requests, one line each. The answer is a message with Stats or with Held.
const (
	askStats = "stats"
	askHeld  = "held"
)

// patience limits the time a peer may take to send a request and to read an answer.
const patience = 10 * time.Second

// A message is one line of JSON from the process.
type message struct {
	Stats json.RawMessage `json:"stats,omitempty"`
	Held  *holding        `json:"held,omitempty"`
	End   *ending         `json:"end,omitempty"` // the last message on every connection
}

// A holding reports whether the kernel still has the mount when all written data is stable, or
// known to be lost.
type holding struct {
	Kept  bool   `json:"kept"`
	Error string `json:"error"` // "" where it is stable
}

// An ending is the mount's result.
type ending struct {
	Error string `json:"error"` // "" where all that was written is stable
}

// A Server answers for one mount.
type Server struct {
	// set once
	l     *net.UnixListener
	path  string
	stats func() any
	held  func(context.Context) (bool, error)
	ended chan struct{} // closed when result is set

	result ending         // written before ended is closed
	conns  sync.WaitGroup // the accept loop, and one goroutine per connection
}

// Serve listens on the socket of a mount of this process. stats returns the figures, which are
// marshaled to JSON. held first brings all written data to stable storage and returns the error of
// that; then it reports whether the kernel still has the mount. Its context ends with the Server or
// with the asking peer. Both are called concurrently.
func Serve(m Mount, stats func() any, held func(context.Context) (bool, error)) (*Server, error) {
	dir, err := OwnDir()
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	path := socketName(dir, m)
	// Only this mount has the number now, so an existing socket is a killed process's.
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	s := &Server{l: l, path: path, stats: stats, held: held, ended: make(chan struct{})}
	s.conns.Go(s.acceptLoop)
	return s, nil
}

// Close sends the mount's result to all waiting peers and removes the socket. It returns when the
// peers have read it, or do not read.
func (s *Server) Close(result error) {
	if result != nil {
		s.result.Error = result.Error()
	}
	close(s.ended)
	s.l.Close() // removes the file
	s.conns.Wait()
}

func (s *Server) acceptLoop() {
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			defer c.Close()
			if peerAllowed(c) {
				s.answer(c)
			}
		})
	}
}

// answer serves one connection until the peer or the mount ends.
func (s *Server) answer(c *net.UnixConn) {
	lines := make(chan string)
	gone := make(chan struct{})
	defer close(gone)
	s.conns.Go(func() { // ends at the latest when answer has closed c
		defer close(lines)
		in := bufio.NewScanner(c)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-gone:
				return
			}
		}
	})
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	answers := make(chan *holding, 1)
	asked := false
	for {
		select {
		case line, ok := <-lines:
			if !ok || line == askStats && !s.sendStats(c) {
				return
			}
			if line == askHeld && !asked {
				asked = true
				s.conns.Go(func() { answers <- s.holding(ctx) })
			}
		case h := <-answers:
			if asked = false; !send(c, &message{Held: h}) {
				return
			}
		case <-s.ended:
			send(c, &message{End: &s.result})
			return
		}
	}
}

// holding returns the answer to askHeld.
func (s *Server) holding(ctx context.Context) *holding {
	kept, err := s.held(ctx)
	h := &holding{Kept: kept}
	if err != nil {
		h.Error = err.Error()
	}
	return h
}

// sendStats answers askStats.
func (s *Server) sendStats(c *net.UnixConn) bool {
	b, err := json.Marshal(s.stats())
	return err == nil && send(c, &message{Stats: b})
}

// send writes one line of JSON and reports success.
func send(c *net.UnixConn, m *message) bool {
	b, err := json.Marshal(m)
	if err != nil {
		return false
	}
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, err = c.Write(append(b, '\n'))
	return err == nil
}
