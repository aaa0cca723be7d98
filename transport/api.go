// The seam: programs as tables of procedures, and the client that calls them.

package transport

import (
	"context"
	"errors"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Program is one version of one ONC RPC program (RFC 5531): a table whose
// index is the procedure number. A nil Run means PROC_UNAVAIL.
type Program struct {
	Name            string
	Number, Version uint32
	Procs           []Procedure
}

// A Procedure is one row of a Program.
type Procedure struct {
	Name string
	// Run decodes c.Args, does the work and encodes c.Res. The errors that mean
	// something are ErrGarbageArgs (also returned by Call.ArgsErr), ErrSystem and *AuthError;
	// any other becomes SYSTEM_ERR.
	Run func(c *Call) error
	// Inline: Run is short and never waits (no disk), so it may run where the call arrived.
	Inline bool
	// Idempotent: doing it twice does no harm, so the duplicate request cache leaves it out.
	Idempotent bool
	// ArgItem: the arguments have one item that may travel as Read chunk.
	ArgItem bool
}

// A Call is one inbound call while its procedure runs.
type Call struct {
	Ctx    context.Context
	Remote net.Addr
	RDMA   bool
	XID    uint32
	Cred   Cred
	Args   *xdr.Decoder // positioned behind the RPC header
	Res    *xdr.Encoder // positioned behind the RPC reply header
}

// Buffer returns n octets for a result item (c.Res.Item), valid until the reply
// has left, or nil when the server's memory budget is spent.
func (c *Call) Buffer(n int) []byte { panic("stub") }

// ArgsErr returns nil, or ErrGarbageArgs when the arguments did not decode.
func (c *Call) ArgsErr() error { panic("stub") }

// Cred is who calls: AUTH_NONE or AUTH_SYS (RFC 5531 §8.2, appendix A).
type Cred struct {
	Flavor  uint32 // 0 AUTH_NONE, 1 AUTH_SYS
	Machine string
	UID     uint32
	GID     uint32
	GIDs    []uint32 // at most 16
}

// Errors of procedures, and of calls.
var (
	ErrGarbageArgs = errors.New("rpc: arguments do not decode (GARBAGE_ARGS)")
	ErrSystem      = errors.New("rpc: system error on the server (SYSTEM_ERR)")
	ErrProgUnavail = errors.New("rpc: program not served (PROG_UNAVAIL)")
	ErrProcUnavail = errors.New("rpc: procedure not served (PROC_UNAVAIL)")
	ErrClosed      = errors.New("rpc: closed")
)

// ServerConfig sizes a Server. The zero value is right for most.
type ServerConfig struct {
	Workers   int // calls of one connection that run at once; 0: 64
	MaxRecord int // the most octets of one TCP record; 0: 2 MiB
	MaxConns  int // 0: 1024
}

// A Server serves programs over RDMA and TCP alike.
type Server struct{}

func NewServer(cfg ServerConfig, programs ...*Program) *Server       { panic("stub") }
func (s *Server) ServeTCP(l net.Listener) error                      { panic("stub") }
func (s *Server) ServeRDMA(dev *rnic.Device, l *rnic.Listener) error { panic("stub") }

// Shutdown stops listening, lets running calls end (until ctx is done), then closes all connections.
func (s *Server) Shutdown(ctx context.Context) error { panic("stub") }

// A Proc names a procedure to call, and what the client must know of it.
type Proc struct {
	Prog, Vers, Proc uint32
	Name             string
	MaxReply         int // the most octets of the results, an item that goes to a sink apart
}

// ClientConfig is how a Client behaves.
type ClientConfig struct {
	Cred Cred
}

// A Client calls procedures over one connection, many at once. It reconnects
// by itself when the connection is lost and then sends the unanswered calls
// again under their XIDs.
type Client struct{}

func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) { panic("stub") }
func DialRDMA(ctx context.Context, dev *rnic.Device, addr string, cfg ClientConfig) (*Client, error) {
	panic("stub")
}

// Call does one call. sink, if not nil, is where the result item (the opaque
// that res reads by Decoder.Item) shall land; the item that res sees is then
// sink[:n]. extra is added to p.MaxReply (for results whose bound hangs on the
// arguments). Slices that res keeps of the Decoder are valid only inside
// DecodeXDR: copy what must stay.
func (c *Client) Call(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	panic("stub")
}
func (c *Client) Close() error { panic("stub") }
