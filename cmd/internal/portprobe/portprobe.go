// Identifies the service on a TCP port from its output and its replies.

// Package portprobe identifies the protocol on a port, so that an error can name the service on a
// wrong port.
package portprobe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Dialer connects to a TCP address, like net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// A Kind is the kind of service on a port.
type Kind uint8

// The kinds.
const (
	Unknown  Kind = iota // sends bytes of another protocol
	Refused              // no listener
	Filtered             // no answer to the attempt to connect, or an unreachable host
	Silent               // accepts the connection and sends nothing
	Closes               // accepts the connection and closes it at the first bytes
	RPC                  // ONC RPC over TCP
	MPA                  // iWARP: answers an MPA Request
	SSH
	HTTP
	TLS
)

// String names a Kind in a sentence: "it is …".
func (k Kind) String() string {
	return [...]string{"a service of another protocol", "no service (connection refused)", "out of reach (no answer to the attempt to connect)",
		"a service that says nothing", "a service that closes the connection", "ONC RPC over TCP", "iWARP (RDMA)", "SSH", "HTTP", "TLS"}[k]
}

// A Result is the identified service. Reply is set if Kind is MPA.
type Result struct {
	Kind  Kind
	Err   error     // the connection attempt's error: Refused, Filtered
	Reply mpa.Frame // MPA: the peer's Reply; it may be a rejection
}

// Wait is the default time to wait for a reply. Tests set a longer time for busy machines.
var Wait = 1500 * time.Millisecond

// Identify tries all protocols concurrently, each over a separate connection; the most specific
// reply wins. It returns after wait, or earlier if ctx ends.
//
// A server logs a request in another protocol like a broken client. So if RPC or MPA is expected,
// that protocol is tried first. The others follow when it ends without a reply, or after a third of
// the time.
func Identify(ctx context.Context, wait time.Duration, dial Dialer, addr string, expected Kind) Result {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	questions := []struct {
		of  Kind
		ask func(context.Context, Dialer, string) Result
	}{{MPA, MPAStart}, {RPC, askRPC}, {HTTP, askHTTP}}
	others, begin := context.WithCancel(ctx)
	defer begin()
	if expected != MPA && expected != RPC {
		begin()
	} else if end, bounded := ctx.Deadline(); bounded {
		defer time.AfterFunc(time.Until(end)/3, begin).Stop()
	}
	results := make([]Result, len(questions))
	var wg sync.WaitGroup
	for i, q := range questions {
		wg.Go(func() {
			if q.of == expected {
				defer begin()
			} else {
				<-others.Done()
			}
			if results[i] = q.ask(ctx, dial, addr); results[i].Kind >= RPC {
				cancel() // ends the other attempts
			}
		})
	}
	wg.Wait()
	best := results[0]
	for _, r := range results[1:] {
		if rank(r.Kind) > rank(best.Kind) {
			best = r
		}
	}
	return best
}

// rank orders Kinds by how specific they are.
func rank(k Kind) int {
	switch {
	case k >= RPC:
		return 5
	case k == Unknown:
		return 4
	case k == Silent: // a server that is silent in one protocol may close the connection in another
		return 2
	case k == Closes:
		return 3
	case k == Refused:
		return 1
	}
	return 0
}

// MPAStart performs the MPA start-up (RFC 6581) up to the peer's Reply.
func MPAStart(ctx context.Context, dial Dialer, addr string) Result {
	private := rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{RemoteInvalidate: true,
		SendSize: rpcrdma.DefaultInlineSize, RecvSize: rpcrdma.DefaultInlineSize})
	req := mpa.Frame{Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}, PrivateData: private}
	var reply mpa.Frame
	return ask(ctx, dial, addr, mpa.AppendFrame(nil, &req), func(b []byte) (Kind, bool) {
		f, n, err := mpa.ParseFrame(b, true)
		switch {
		case err != nil && bytes.HasPrefix(b, []byte("MPA ID Re")):
			// an MPA frame of an unknown revision, or with an invalid length
			return MPA, true
		case err != nil:
			return guess(b)
		}
		f.PrivateData = bytes.Clone(f.PrivateData)
		reply = f
		return MPA, n > 0
	}, func() mpa.Frame { return reply })
}

// askRPC calls NULL of NFS. Any reply with its XID means ONC RPC.
func askRPC(ctx context.Context, dial Dialer, addr string) Result {
	const xid = 0x6e667372
	var e xdr.Encoder
	h := oncrpc.CallHeader{XID: xid, Prog: nfs3.Program, Vers: nfs3.Version}
	h.EncodeXDR(&e)
	const last = 1 << 31 // the record's only fragment (RFC 5531 §11)
	call := append(binary.BigEndian.AppendUint32(nil, uint32(len(e.Bytes()))|last), e.Bytes()...)
	return ask(ctx, dial, addr, call, func(b []byte) (Kind, bool) {
		if len(b) >= 12 && binary.BigEndian.Uint32(b[4:]) == xid && binary.BigEndian.Uint32(b[8:]) == 1 {
			return RPC, true
		}
		return guess(b)
	}, nil)
}

func askHTTP(ctx context.Context, dial Dialer, addr string) Result {
	return ask(ctx, dial, addr, []byte("GET / HTTP/1.0\r\n\r\n"), guess, nil)
}

// guess identifies a protocol by the first bytes received; false means that more bytes are needed.
func guess(b []byte) (Kind, bool) {
	switch {
	case bytes.HasPrefix(b, []byte("SSH-")):
		return SSH, true
	case bytes.HasPrefix(b, []byte("HTTP/")):
		return HTTP, true
	case len(b) >= 3 && (b[0] == 0x15 || b[0] == 0x16) && b[1] == 3: // a TLS alert or handshake
		return TLS, true
	}
	return Unknown, len(b) >= 64
}

// ask connects, sends question, and passes the received bytes to identify until the result is
// final.
func ask(ctx context.Context, dial Dialer, addr string, question []byte, identify func([]byte) (Kind, bool), frame func() mpa.Frame) Result {
	c, err := dial(ctx, "tcp", addr)
	if err != nil {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return Result{Kind: Refused, Err: err}
		}
		return Result{Kind: Filtered, Err: err}
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	kind, sure := Silent, false
	buf, n := make([]byte, 2048), 0
	_, err = c.Write(question)
	for !sure && n < len(buf) && err == nil {
		var m int
		m, err = c.Read(buf[n:])
		if n += m; m > 0 {
			kind, sure = identify(buf[:n])
		}
	}
	if kind == Silent && err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		kind = Closes
	}
	r := Result{Kind: kind, Err: err}
	if kind == MPA && sure && frame != nil {
		r.Reply = frame()
	}
	return r
}
