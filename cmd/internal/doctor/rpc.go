// Checks of the transports: MPA start-up, RPC-over-RDMA, and which programs answer.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// Programs of a server other than NFS 3 and MOUNT 3.
const (
	progNLM    = 100021
	progNSM    = 100024
	progNFSACL = 100227
)

// programs lists the programs to call. NFS 3 comes first, because a mount requires it.
var programs = []struct {
	name       string
	prog, vers uint32
}{
	{"NFS 3", nfs3.Program, nfs3.Version},
	{"NFS 4", nfs3.Program, 4},
	{"MOUNT 3", mount3.Program, mount3.Version},
	{"NLM 4", progNLM, 4},
	{"NSM 1", progNSM, 1},
	{"NFSACL 3", progNFSACL, 3},
}

// checkStartUp describes the port's MPA Reply.
func checkStartUp(_ context.Context, cu *checkup) Finding {
	if cu.roce {
		return ok("none with RoCE, which connects by its communication manager")
	}
	f := &cu.rdmaPort.Reply
	if f.Rev == 0 {
		return cu.failIfWanted(false, "it is an iWARP service that this client does not understand: is it an NFS server's?", "the MPA Reply is not one of RFC 5044 or 6581")
	}
	words := []string{fmt.Sprintf("MPA revision %d", f.Rev)}
	if f.HasEnhanced {
		words = append(words, fmt.Sprintf("IRD %s, ORD %s", depth(f.Enhanced.IRD), depth(f.Enhanced.ORD)))
	}
	words = append(words, "CRCs "+yes(f.CRC, "wanted", "left to us"))
	if f.Markers {
		words = append(words, "markers wanted")
	}
	p, told := rpcrdma.ParsePrivateData(f.PrivateData)
	if told {
		words = append(words, fmt.Sprintf("inline %d out, %d in, remote invalidation %s", p.RecvSize, p.SendSize, yes(p.RemoteInvalidate, "yes", "no")))
	}
	text := strings.Join(words, ", ")
	switch {
	case f.Reject:
		return cu.failIfWanted(false, "see the server's log: it may refuse this host, or have too many connections", "the server rejects the connection (%s)", text)
	case !f.HasEnhanced:
		return cu.failIfWanted(false, "the server needs RFC 6581 (Linux siw, any iWARP adapter of the last ten years)", "no IRD/ORD block in the Reply (%s)", text)
	case !told:
		return warn("all messages above 1024 bytes will take chunks: have a server that sends RFC 8797 private data (Linux 4.9 and later)",
			"%s, no RFC 8797 private data", text)
	}
	return ok("%s", text)
}

// depth formats a depth from the MPA start-up.
func depth(n uint16) string {
	if n == mpa.NotNegotiated {
		return "not negotiated"
	}
	return fmt.Sprint(n)
}

func yes(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// config returns the configuration of the checkup's connections: no retries, short timeouts.
func (cu *checkup) config(service string) transport.ClientConfig {
	most := cu.timeLimit(checkTime)
	return transport.ClientConfig{Service: service, Cred: transport.SysCred(), ReservedPort: true, CallTimeout: most, RetryTimeout: most, MaxRetries: -1}
}

// configOf is like config, for one port. The NFS ports use TLS, if TLS is wanted. Other ports get
// calls without TLS, as from a mount.
func (cu *checkup) configOf(service string, port int) transport.ClientConfig {
	cfg := cu.config(service)
	if (port == cu.TCPPort || port == cu.RDMAPort) && cu.overTLS() {
		cfg.TLS = cu.Security.Config(cu.Host)
	}
	return cfg
}

// checkRPCOverRDMA connects and makes one call.
func checkRPCOverRDMA(ctx context.Context, cu *checkup) Finding {
	if cu.roce { // the port check has connected by RoCE
		return rdmaFacts(cu.rdma)
	}
	if cu.tlsBroken {
		return afterTLS()
	}
	dev := iwarp.Open(rnic.DeviceConfig{CRC: cu.CRC})
	c, err := transport.DialRDMA(ctx, dev, cu.portAddr(cu.RDMAPort), cu.configOf("nfs", cu.RDMAPort))
	if err != nil {
		var gone *transport.ConnectError
		var handshake *transport.TLSError
		switch {
		case errors.As(err, &handshake):
			return cu.failIfWanted(false, cu.Security.Cure(handshake), "no TLS below iWARP: %v", handshake)
		case errors.As(err, &gone):
			err = gone.Err
		}
		return cu.failIfWanted(false, "the port speaks iWARP, but not RPC-over-RDMA version 1: is it the NFS server's? Try --crc auto, and see its log", "no answer to a call: %v", err)
	}
	cu.rdma = c
	cu.atEnd(c.Close)
	return rdmaFacts(c)
}

// rdmaFacts describes the parameters that both ends agreed on.
func rdmaFacts(c *transport.Client) Finding {
	i, _ := c.RDMAInfo()
	return ok("%d credits, inline %d out, %d in, remote invalidation %s, IRD %d, ORD %d", i.Credits, i.Thresholds.Send, i.Thresholds.Recv,
		yes(i.Thresholds.Invalidate, "yes", "no"), i.IRD, i.ORD)
}

func checkProgramsRDMA(ctx context.Context, cu *checkup) Finding {
	f, mount, locks := askPrograms(ctx, cu, cu.rdma, false)
	cu.rdmaMount = mount
	_ = locks // over RDMA the kernel never requests locks
	return f
}

func checkProgramsTCP(ctx context.Context, cu *checkup) Finding {
	c, err := transport.DialTCP(ctx, cu.portAddr(cu.TCPPort), cu.configOf("nfs", cu.TCPPort))
	if err != nil {
		return cu.failIfWanted(true, "try again: the port answered a moment ago", "%v", err)
	}
	cu.tcp = c
	cu.atEnd(c.Close)
	f, mount, locks := askPrograms(ctx, cu, c, true)
	cu.tcpMount, cu.locks = mount, locks
	return f
}

// askPrograms calls each program's NULL and returns a finding with the programs that answer.
func askPrograms(ctx context.Context, cu *checkup, c *transport.Client, tcp bool) (f Finding, mount, locks bool) {
	var served []string
	var first error
	other := ""
	for i, p := range programs {
		err := c.Call(ctx, &transport.Proc{Prog: p.prog, Vers: p.vers, Name: "NULL"}, nil, nil, nil, 0)
		var mismatch *transport.MismatchError
		switch {
		case err == nil:
			served = append(served, p.name)
			mount = mount || p.prog == mount3.Program
			locks = locks || p.prog == progNLM
		case i == 0:
			first = err
			if errors.As(err, &mismatch) {
				other = fmt.Sprintf("NFS versions %d to %d only", mismatch.Low, mismatch.High)
			}
		}
	}
	text := strings.Join(served, ", ")
	switch {
	case first == nil:
		return ok("%s", text), mount, locks
	case other != "":
		return cu.failIfWanted(tcp, "have the server serve version 3 (nfs.conf: [nfsd] vers3=y)", "%s", other), mount, locks
	case text == "":
		return cu.failIfWanted(tcp, "the port is of another RPC program: give the server's NFS port", "NFS 3 does not answer (%v), nor any program that goes with it", first), mount, locks
	}
	return cu.failIfWanted(tcp, "the port is of another RPC program: give the server's NFS port", "NFS 3 does not answer (%v); there are %s", first, text), mount, locks
}

// checkBind lists the programs registered with rpcbind.
func checkBind(ctx context.Context, cu *checkup) Finding {
	c, err := transport.DialTCP(ctx, cu.portAddr(cu.BindPort), cu.config("rpcbind"))
	var res rpcbind.DumpRes
	if err == nil {
		defer c.Close()
		err = c.Call(ctx, &transport.Proc{Prog: rpcbind.Program, Vers: rpcbind.Version, Proc: rpcbind.ProcDump, Name: "DUMP", MaxReply: rpcbind.MaxList}, nil, &res, nil, 0)
	}
	if err != nil {
		return warn("give mount the ports, as in the command below", "no list of programs: %v", err)
	}
	cu.bound = res.Mappings
	var words []string
	for _, p := range programs {
		if port := boundPort(res.Mappings, p.prog, p.vers); port != 0 {
			words = append(words, fmt.Sprintf("%s at %d", p.name, port))
		}
	}
	if words == nil {
		return warn("give mount the ports, as in the command below", "NFS and MOUNT are not registered")
	}
	return ok("%s", strings.Join(words, ", "))
}

// boundPort returns a program's TCP port in rpcbind's list, or 0.
func boundPort(list []rpcbind.Mapping, prog, vers uint32) int {
	for _, m := range list {
		if m.Prog == prog && m.Vers == vers && m.Prot == rpcbind.TCP && m.Port > 0 && m.Port < 1<<16 {
			return int(m.Port)
		}
	}
	return 0
}

// latencyCalls are made one after another. On a responsive mount each call takes less than
// slowCall.
const (
	latencyCalls = 50
	slowCall     = 50 * time.Millisecond
)

// checkLatency measures NULL on the connection that a mount would use.
func checkLatency(ctx context.Context, cu *checkup) Finding {
	c, over := cu.rdma, "RDMA"
	if c == nil || cu.TCP && cu.tcp != nil {
		c, over = cu.tcp, "TCP"
	}
	if c == nil {
		return skip("", "not tried: no connection that answers")
	}
	var times []time.Duration
	for range latencyCalls {
		begin := time.Now()
		if err := c.Call(ctx, &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}, nil, nil, nil, 0); err != nil {
			if len(times) == 0 {
				return warn("see the checks of programs above", "NULL over %s: %v", over, err)
			}
			break
		}
		times = append(times, time.Since(begin))
	}
	least, median := spread(times)
	if median > cu.timeLimit(slowCall) {
		return warn("a mount will feel slow: is there a nearer way, or is the server busy?", "NULL over %s: least %v, median %v", over, least, median)
	}
	return ok("NULL over %s: least %v, median %v", over, least, median)
}
