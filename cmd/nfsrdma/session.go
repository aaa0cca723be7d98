// What all commands share: the flags, and the connections made so far.

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A session is one run of the program. It belongs to one goroutine.
type session struct {
	stderr io.Writer
	flags  struct {
		transport      string
		mountPort      int
		conns          int
		crc            string
		connectTimeout time.Duration
		timeout        time.Duration
	}
	typed   map[nfsclient.Target]string // what the user wrote for it
	opened  []opened
	clients map[string]*nfsclient.Client // by transport and address
}

// An opened is a remote path that was mounted: what the user wrote, and the path
// below the export's root that it stands for.
type opened struct{ arg, rest string }

// target reads a remote path and puts the flags on it.
func (s *session) target(arg string) (nfsclient.Target, error) {
	return s.withFlags(arg, nfsclient.ParseTarget)
}

// server reads a server's name, or a remote path on it.
func (s *session) server(arg string) (nfsclient.Target, error) {
	return s.withFlags(arg, nfsclient.ParseServer)
}

func (s *session) withFlags(arg string, parse func(string) (nfsclient.Target, error)) (nfsclient.Target, error) {
	t, err := parse(arg)
	if err == nil && s.flags.transport != "" {
		t.Transport, err = nfsclient.ParseTransport(s.flags.transport)
	}
	if s.typed == nil {
		s.typed = make(map[nfsclient.Target]string)
	}
	s.typed[t] = arg
	return t, err
}

// name is what errors call t: what the user wrote for it.
func (s *session) name(t nfsclient.Target) string {
	if arg := s.typed[t]; arg != "" {
		return arg
	}
	return t.String()
}

func (s *session) options(t nfsclient.Target) (nfsclient.Options, error) {
	o := nfsclient.Options{Transport: t.Transport, Conns: s.flags.conns, MountPort: s.flags.mountPort}
	if o.Conns < 1 {
		return o, fmt.Errorf("--conns %d: at least 1", o.Conns)
	}
	if o.MountPort < 0 || o.MountPort > 65535 {
		return o, fmt.Errorf("--mount-port %d is not a port", o.MountPort)
	}
	switch {
	case s.flags.timeout < 0:
		return o, fmt.Errorf("--timeout %v: want 0 (no limit) or more", s.flags.timeout)
	case s.flags.connectTimeout <= 0:
		return o, fmt.Errorf("--connect-timeout %v: want more than 0", s.flags.connectTimeout)
	case s.flags.timeout == 0:
		o.CallTimeout = transport.Hard
	default:
		o.CallTimeout = s.flags.timeout
	}
	o.Responding = s.notice(t)
	modes := map[string]rnic.CRCMode{"on": rnic.CRCOn, "auto": rnic.CRCAuto, "off": rnic.CRCOff}
	var ok bool
	if o.CRC, ok = modes[s.flags.crc]; !ok {
		return o, fmt.Errorf("--crc %q is neither on, auto nor off", s.flags.crc)
	}
	return o, nil
}

// dial gives the connection to t's server, the one from before if there is one.
func (s *session) dial(parent context.Context, t nfsclient.Target) (*nfsclient.Client, error) {
	o, err := s.options(t)
	if err != nil {
		return nil, err
	}
	key := t.Transport.String() + " " + t.Addr()
	if c := s.clients[key]; c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(parent, s.flags.connectTimeout)
	defer cancel()
	wrong := probeLate(ctx, cancel, t)
	c, err := nfsclient.Dial(ctx, t.Addr(), o)
	if hint := wrong(); hint != "" {
		if err == nil {
			c.Close()
		}
		return nil, fmt.Errorf("%s: %s", s.name(t), hint)
	}
	if err != nil {
		return nil, s.explainConnect(parent, t, err)
	}
	if s.clients == nil {
		s.clients = make(map[string]*nfsclient.Client)
	}
	s.clients[key] = c
	return c, nil
}

// mount gives the export that t is in, and the path of t below its root.
func (s *session) mount(ctx context.Context, t nfsclient.Target) (*nfsclient.FS, string, error) {
	c, err := s.dial(ctx, t)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.flags.connectTimeout)
	defer cancel()
	fsys, rest, err := c.MountPath(ctx, t.Path)
	if err != nil {
		return nil, "", s.explainMount(t, err)
	}
	s.opened = append(s.opened, opened{s.name(t), rest})
	return fsys, rest, nil
}

// open is target and mount in one.
func (s *session) open(ctx context.Context, arg string) (*nfsclient.FS, string, error) {
	t, err := s.target(arg)
	if err != nil {
		return nil, "", argError(arg, err)
	}
	return s.mount(ctx, t)
}

// argError names the argument in an error that does not.
func argError(arg string, err error) error {
	if err == nfsclient.ErrNotRemote {
		return fmt.Errorf("%s: %w", arg, err)
	}
	return err
}

func (s *session) close() {
	for _, c := range s.clients {
		c.Close()
	}
	s.clients = nil
}
