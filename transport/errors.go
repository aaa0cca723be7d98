// Errors of procedures and calls.

package transport

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Errors returned by procedures and calls.
var (
	ErrGarbageArgs = errors.New("rpc: arguments do not decode (GARBAGE_ARGS)")
	ErrSystem      = errors.New("rpc: system error on the server (SYSTEM_ERR)")
	ErrProgUnavail = errors.New("rpc: program not served (PROG_UNAVAIL)")
	ErrProcUnavail = errors.New("rpc: procedure not served (PROC_UNAVAIL)")
	ErrClosed      = errors.New("rpc: closed")
	ErrBadReply    = errors.New("rpc: the reply does not decode")

	// ErrShed is returned by Call.Busy if calls in the lane have waited in vain. A procedure that
	// has changed nothing returns it, and its client gets the results of Procedure.Busy.
	ErrShed = errors.New("rpc: calls that wait for the same thing do not end")

	// ErrNoRoom ends a call if its result item exceeds the sink, or without a sink, if its results
	// exceed Proc.MaxReply and extra. Over RDMA the server cannot send such results; over TCP the
	// client drops them. The connection and its other calls continue. A reply over TCP of more than
	// ClientConfig.MaxRecord ends its connection, and other calls are sent again over a new one.
	ErrNoRoom = errors.New("rpc: the results need more room than the call offers (sink, or MaxReply and extra)")

	// ErrDatagramSize ends a call over UDP that a datagram cannot hold. Nothing was sent.
	ErrDatagramSize = errors.New("rpc: the call is longer than a datagram")
)

// A roomError is a procedure's ErrNoRoom.
type roomError struct {
	proc   string
	cause  error // from rpcrdma; nil if this client detected it
	args   bool  // arguments were offered as chunks, and possibly too long
	record bool  // the reply exceeds ClientConfig.MaxRecord
}

func (e *roomError) Error() string {
	s := e.proc + ": " + ErrNoRoom.Error()
	if e.record {
		s += ": the reply is longer than MaxRecord of the ClientConfig, 4 MiB by default"
	}
	if e.args {
		s += ", or its arguments are longer than the server takes as chunks (MaxPull of rpcrdma.Config there, 2 MiB by default)"
	}
	return s
}

// Unwrap returns ErrNoRoom, and rpcrdma's error.
func (e *roomError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrNoRoom}
	}
	return []error{ErrNoRoom, e.cause}
}

// An AuthError is AUTH_ERROR. A procedure returns an AuthError to refuse a caller; a Client's call
// returns one if the server refused the client.
type AuthError struct{ Stat oncrpc.AuthStat }

func (e *AuthError) Error() string {
	return "rpc: credentials refused (" + e.Stat.String() + ")"
}

// A MismatchError means that the server speaks other versions of RPC (RPC_MISMATCH) or, if Prog
// is not zero, of the program (PROG_MISMATCH).
type MismatchError struct{ Prog, Low, High uint32 }

func (e *MismatchError) Error() string {
	if e.Prog == 0 {
		return fmt.Sprintf("rpc: server speaks RPC versions %d to %d (RPC_MISMATCH)", e.Low, e.High)
	}
	return fmt.Sprintf("rpc: server serves versions %d to %d of program %d (PROG_MISMATCH)", e.Low, e.High, e.Prog)
}

// A ConnectError means that a call or a dial ended without the server's answer.
type ConnectError struct {
	Service string // "nfs"
	Addr    string
	Err     error // the last error
	ended   error // the context's error, if that ended the wait
}

func (e *ConnectError) Error() string {
	var other *MoveError
	if errors.As(e.Err, &other) {
		return e.Service + " server " + e.Addr + " is not used: " + other.Error()
	}
	var insecure *TLSError
	if errors.As(e.Err, &insecure) {
		return e.Service + " server " + e.Addr + " is not used: " + insecure.Error()
	}
	return e.Service + " server " + e.Addr + " does not answer: " + plainCause(e.Err).Error()
}

// Unwrap returns the cause, and the context's error if that ended the wait.
func (e *ConnectError) Unwrap() []error {
	if e.ended == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.ended}
}

// Timeout reports whether a timeout expired, which makes a ConnectError a net.Error.
func (e *ConnectError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.ended, &t) && t.Timeout() || errors.As(e.Err, &t) && t.Timeout()
}

// plainCause returns the system's own text for err ("connection refused"), without package net's
// addresses and system calls.
func plainCause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// A StuckError ends Server.Shutdown while procedures are still running, because the file systems
// that they wait for do not answer. The procedures may continue at any time.
type StuckError struct {
	Lanes []string // the procedures' lanes (Program.Lanes); "": unknown
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("rpc: calls that do not end were left behind: %q does not answer", e.Lanes)
}
