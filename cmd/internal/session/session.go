// The run that all commands share: the flags, and the open connections.

// Package session turns the remote paths in a command line into mounted exports, with one
// connection per server. Its errors name the path as typed and a remedy.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/cli"
	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/cmd/internal/secure"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Flags has the connection flags as given on the command line.
type Flags struct {
	Proto          string        // rdma, tcp, auto (RDMA, else TCP); empty: by the path
	RDMA           string        // iwarp, roce or auto (iWARP, else RoCE); empty: iwarp
	MountPort      int           // over TCP; 0: the NFS port, then rpcbind's answer
	NConnect       int           // connections to each server
	CRC            string        // CRC mode of MPA: on, auto or off
	ConnectTimeout time.Duration // limit for a connection, and for a mount
	Timeout        time.Duration // limit without a reply from a server; 0: forever
	Mount8         bool          // called by mount(8), which has no flags for times

	Sec, XprtSec string          // flavors with colons between them, and none, tls or mtls; empty: the default
	Files        secure.Settings // the other security options; Sec and XprtSec are not set
}

// A Session is one run of the program. It belongs to one goroutine.
type Session struct {
	Stderr io.Writer // set once; for messages to the user during calls
	Flags  Flags     // set once, before the first path is resolved

	typed   map[nfsclient.Target]string // the path as typed
	opened  []openedPath
	clients map[string]*nfsclient.Client // clients by transport and address

	security *secure.Security // nil: not needed so far

	refused refusals
}

// An openedPath is a mounted remote path: as typed, and below the export's root.
type openedPath struct {
	arg, rest string
	name      string // HOST:/export
	fsys      *nfsclient.FS
}

// Target parses a remote path and applies the flags.
func (s *Session) Target(arg string) (nfsclient.Target, error) {
	return s.withFlags(arg, nfsclient.ParseTarget)
}

// Server parses a server's name, or a remote path on it.
func (s *Session) Server(arg string) (nfsclient.Target, error) {
	return s.withFlags(arg, nfsclient.ParseServer)
}

func (s *Session) withFlags(arg string, parse func(string) (nfsclient.Target, error)) (nfsclient.Target, error) {
	t, err := parse(arg)
	if err == nil {
		err = s.setProto(&t)
	}
	if s.typed == nil {
		s.typed = make(map[nfsclient.Target]string)
	}
	s.typed[t] = arg
	return t, err
}

// protoAuto is the --proto value for RDMA with TCP as fallback.
const protoAuto = "auto"

// setProto applies --proto to a target.
func (s *Session) setProto(t *nfsclient.Target) (err error) {
	switch s.Flags.Proto {
	case "":
		return nil
	case protoAuto:
		if t.TransportSet {
			return fmt.Errorf("%s is over TCP: leave --proto auto out", t)
		}
		for _, one := range t.Servers() {
			if one.Port != 0 {
				return fmt.Errorf("%s has a port, and RDMA and TCP have ports of their own: write --proto rdma or --proto tcp", t)
			}
		}
		t.Transport = nfsclient.RDMA
		return nil
	}
	if t.Transport, err = nfsclient.ParseTransport(s.Flags.Proto); err != nil {
		return fmt.Errorf("--proto %q: must be rdma, tcp or auto", s.Flags.Proto)
	}
	return nil
}

// Name returns t as typed, for errors.
func (s *Session) Name(t nfsclient.Target) string {
	if arg := s.typed[t]; arg != "" {
		return arg
	}
	return t.String()
}

// Options returns the connection options for t, or an error about an invalid flag.
func (s *Session) Options(t nfsclient.Target) (nfsclient.Options, error) {
	o := nfsclient.Options{Transport: t.Transport, Conns: s.Flags.NConnect, MountPort: s.Flags.MountPort}
	if o.Conns < 1 {
		return o, fmt.Errorf("--nconnect %d: must be at least 1", o.Conns)
	}
	if o.MountPort < 0 || o.MountPort > 65535 {
		return o, fmt.Errorf("--mount-port %d: must be a port, from 0 to 65535", o.MountPort)
	}
	switch {
	case s.Flags.Timeout < 0:
		return o, fmt.Errorf("--timeout %v: must be 0 (no limit) or more", s.Flags.Timeout)
	case s.Flags.ConnectTimeout <= 0:
		return o, fmt.Errorf("--connect-timeout %v: must be more than 0", s.Flags.ConnectTimeout)
	case s.Flags.Timeout == 0:
		o.CallTimeout = transport.Hard
	default:
		o.CallTimeout = s.Flags.Timeout
	}
	if s.Flags.RDMA != "" {
		var err error
		if o.Provider, err = nfsclient.ParseProvider(s.Flags.RDMA); err != nil {
			return o, fmt.Errorf("--rdma %q: must be auto, iwarp or roce", s.Flags.RDMA)
		}
	}
	if err := s.secure(&o); err != nil {
		return o, err
	}
	o.Responding, o.Moved = s.notice(t), s.failoverNotice()
	modes := map[string]rnic.CRCMode{"on": rnic.CRCOn, "auto": rnic.CRCAuto, "off": rnic.CRCOff, "strict": rnic.CRCStrict}
	var ok bool
	if o.CRC, ok = modes[s.Flags.CRC]; !ok {
		return o, fmt.Errorf("--crc %q: must be on, auto, off or strict", s.Flags.CRC)
	}
	return o, nil
}

// Dial returns a connection to t's server, reusing an existing one. The session owns it.
func (s *Session) Dial(parent context.Context, t nfsclient.Target) (*nfsclient.Client, error) {
	o, err := s.Options(t)
	if err != nil {
		return nil, err
	}
	key := t.Transport.String() + " " + t.Addr()
	if c := s.clients[key]; c != nil {
		return c, nil
	}
	c, err := s.dialAny(parent, t, o)
	if err != nil {
		return nil, err
	}
	if s.clients == nil {
		s.clients = make(map[string]*nfsclient.Client)
	}
	s.clients[key] = c
	return c, nil
}

// dialAny dials with the transports that --proto allows. With auto each transport gets half of the
// time.
func (s *Session) dialAny(parent context.Context, t nfsclient.Target, o nfsclient.Options) (*nfsclient.Client, error) {
	limit := s.limit()
	if s.Flags.Proto != protoAuto {
		return s.dial(parent, t, o, limit)
	}
	limit.most /= 2
	c, err := s.dial(parent, t, o, limit)
	var away Unreachable
	if !errors.As(err, &away) || parent.Err() != nil {
		return c, err
	}
	over := t
	over.Transport, o.Transport = nfsclient.TCP, nfsclient.TCP
	s.typed[over] = s.Name(t)
	c, tcp := s.dial(parent, over, o, limit)
	if tcp != nil {
		return nil, fmt.Errorf("%w (over TCP: %s)", err, strings.TrimPrefix(tcp.Error(), s.Name(t)+": "))
	}
	return c, nil
}

// dial returns a new connection, owned by the caller.
func (s *Session) dial(parent context.Context, t nfsclient.Target, o nfsclient.Options, limit limit) (*nfsclient.Client, error) {
	ctx, cancel := limit.begin(parent)
	defer cancel()
	wrong := probeLate(ctx, cancel, t)
	c, err := nfsclient.Dial(ctx, t.Addr(), o)
	hint, sure := wrong()
	switch {
	case sure && err == nil:
		c.Close()
		fallthrough
	case sure:
		return nil, fmt.Errorf("%s: %s", s.Name(t), hint)
	case err != nil:
		return nil, s.explainConnect(ctx, t, &limit, hint, err)
	}
	return c, nil
}

// OpenWith mounts the directory t with the caller's options. It returns an FS; the caller closes
// its Client. arg is t's name in errors. A possibly temporary error is an Unreachable.
func (s *Session) OpenWith(ctx context.Context, arg string, t nfsclient.Target, o nfsclient.Options) (*nfsclient.FS, error) {
	if s.typed == nil {
		s.typed = make(map[nfsclient.Target]string)
	}
	s.typed[t] = arg
	limit := s.limit()
	limit.call = o.CallTimeout
	c, err := s.dial(ctx, t, o, limit)
	if err != nil {
		return nil, err
	}
	ctx, cancel := limit.begin(ctx)
	defer cancel()
	fsys, rest, err := c.MountPath(ctx, t.Path)
	if err != nil {
		err = s.explainMount(ctx, c, t, &limit, o.Dial == nil && rights.MayReserve(), err)
	} else if strings.Trim(rest, "/") != "" {
		if fsys, err = fsys.Sub(ctx, rest); err != nil {
			err = fmt.Errorf("%s: %s", arg, cli.Reason(err))
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return fsys, nil
}

// Mount returns the export that contains t, and t's path below its root.
func (s *Session) Mount(ctx context.Context, t nfsclient.Target) (*nfsclient.FS, string, error) {
	c, err := s.Dial(ctx, t)
	if err != nil {
		return nil, "", err
	}
	limit := s.limit()
	ctx, cancel := limit.begin(ctx)
	defer cancel()
	fsys, rest, err := c.MountPath(ctx, t.Path)
	if err != nil {
		return nil, "", s.explainMount(ctx, c, t, &limit, rights.MayReserve(), err)
	}
	s.opened = append(s.opened, openedPath{arg: s.Name(t), rest: rest, name: t.Hosts() + ":" + fsys.Path(), fsys: fsys})
	return fsys, rest, nil
}

// open combines Target and Mount.
func (s *Session) open(ctx context.Context, arg string) (*nfsclient.FS, string, error) {
	t, err := s.Target(arg)
	if err != nil {
		return nil, "", ArgError(arg, err)
	}
	return s.Mount(ctx, t)
}

// ArgError adds the argument to an error that lacks it.
func ArgError(arg string, err error) error {
	if errors.Is(err, nfsclient.ErrNotRemote) {
		return fmt.Errorf("%s: %w", arg, err)
	}
	return err
}

// Close closes the connections.
func (s *Session) Close() {
	for _, c := range s.clients {
		c.Close()
	}
	s.clients = nil
}
