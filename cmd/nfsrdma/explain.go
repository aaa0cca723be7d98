// What to do about a server that does not answer, or does not export what is asked for.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
)

// explainConnect says why the server of t cannot be used, and what may help.
func (s *session) explainConnect(t nfsclient.Target, err error) error {
	var gone *transport.ConnectError
	if !errors.As(err, &gone) {
		return err
	}
	where := fmt.Sprintf("%s over %s", t.Addr(), t.Transport)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("host %s: %s", t.Host, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: %w: is the server running, and is this its port?", where, syscall.ECONNREFUSED)
	case errors.Is(err, context.DeadlineExceeded) || gone.Timeout():
		return fmt.Errorf("%s: no answer within %v (--connect-timeout): is this its port, and not that of another protocol?", where, s.flags.connectTimeout)
	case t.Transport == nfsclient.RDMA && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)):
		return fmt.Errorf("%s: the server hung up on the first message: is this its RDMA port, and not that of TCP?", where)
	}
	return fmt.Errorf("%s: %w", where, gone.Err)
}

// explainMount says what else could be mounted.
func (s *session) explainMount(t nfsclient.Target, err error) error {
	var refused *nfsclient.MountError
	if errors.As(err, &refused) && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such export, or no such directory in one: nfsrdma showmount %s lists the exports", t.Path, serverArg(t))
	}
	return s.explainSilence(t, "mount "+t.Path, err)
}

// explainSilence says what it may be when the server of t took the connection and then said nothing.
func (s *session) explainSilence(t nfsclient.Target, what string, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: no answer from %s over %s within %v (--connect-timeout): is this its port, and not that of another protocol?",
		what, t.Addr(), t.Transport, s.flags.connectTimeout)
}

// serverArg is the server of t as an argument, the transport too where it is not the usual one.
func serverArg(t nfsclient.Target) string {
	if t.Transport == nfsclient.TCP {
		t.Path = "/"
		return t.String()
	}
	if t.Port == 0 {
		return t.Host
	}
	return t.Addr()
}
