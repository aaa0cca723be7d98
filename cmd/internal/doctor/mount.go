// Checks of MOUNT: its port, the exports, and whether this host may mount.

package doctor

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// checkMount finds MOUNT: on the given port, on the NFS ports, or through rpcbind. The kernel's
// mount needs it over TCP (or UDP), whatever NFS uses.
func checkMount(ctx context.Context, cu *checkup) Finding {
	cu.mountPort = cu.MountPort
	if cu.mountPort == 0 && cu.tcpMount {
		cu.mountPort = cu.TCPPort
	}
	if cu.mountPort == 0 {
		cu.mountPort = boundPort(cu.bound, mount3.Program, mount3.Version)
	}
	var over string
	switch {
	case cu.MountPort == 0 && cu.rdmaMount && !cu.TCP:
		cu.mount, over = cu.rdma, fmt.Sprintf("on the RDMA port, %d", cu.RDMAPort)
	case cu.MountPort == 0 && cu.tcpMount:
		cu.mount, over = cu.tcp, fmt.Sprintf("on the NFS port, %d", cu.TCPPort)
	case cu.mountPort != 0:
		var err error
		if cu.mount, err = cu.dialMount(ctx); err != nil {
			return fail("see whether mountd runs on the server and which port it has (rpcinfo -p), and let it through the firewalls",
				"MOUNT at TCP port %d: %v", cu.mountPort, err)
		}
		over = fmt.Sprintf("at TCP port %d", cu.mountPort)
	case cu.rdmaMount:
		cu.mount, over = cu.rdma, fmt.Sprintf("on the RDMA port, %d", cu.RDMAPort)
	case cu.rdma == nil && cu.tcp == nil && cu.tlsBroken:
		return afterTLS()
	case cu.rdma == nil && cu.tcp == nil && cu.bindPort.Kind != portprobe.RPC:
		return fail("see the ports above first", "no port answers at which it could be")
	default:
		return fail("start mountd on the server, or give its port with --mount-port", "not on the NFS ports, and rpcbind knows none")
	}
	if cu.mountPort == 0 {
		return warn("a kernel mount needs it over TCP: have the server serve TCP too (nfsrdmad --tcp-port); nfsrdma's own commands do not", "%s, and nowhere over TCP", over)
	}
	return ok("%s", over)
}

// dialMount connects to MOUNT over TCP and calls NULL once.
func (cu *checkup) dialMount(ctx context.Context) (*transport.Client, error) {
	c, err := transport.DialTCP(ctx, cu.portAddr(cu.mountPort), cu.configOf("mount", cu.mountPort))
	if err != nil {
		return nil, err
	}
	cu.atEnd(c.Close)
	return c, c.Call(ctx, mountProc(mount3.ProcNull, "NULL", 0), nil, nil, nil, 0)
}

func mountProc(n uint32, name string, most int) *transport.Proc {
	return &transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: n, Name: name, MaxReply: most}
}

// shownExports is the number of exports named in the finding.
const shownExports = 8

// checkExports requests the exports and their clients.
func checkExports(ctx context.Context, cu *checkup) Finding {
	var res mount3.ExportRes
	if err := cu.mount.Call(ctx, mountProc(mount3.ProcExport, "EXPORT", mount3.MaxList), nil, &res, nil, 0); err != nil {
		return warn("some servers keep the list to themselves: name the export, as in "+cu.host()+":/export", "no list: %v", err)
	}
	cu.exports = res.Exports
	if len(res.Exports) == 0 {
		return warn("export a directory on the server (exportfs -v shows what it has), or ask from a host that may see it", "the list is empty")
	}
	var words []string
	for _, e := range res.Exports[:min(len(res.Exports), shownExports)] {
		who := "everyone"
		if len(e.Groups) > 0 {
			who = strings.Join(e.Groups, ",")
		}
		words = append(words, fmt.Sprintf("%s (%s)", e.Dir, who))
	}
	if n := len(res.Exports) - shownExports; n > 0 {
		words = append(words, fmt.Sprintf("%d more", n))
	}
	return ok("%s", strings.Join(words, ", "))
}

// checkMNT requests the handle of the export.
func checkMNT(ctx context.Context, cu *checkup) Finding {
	cu.export = cu.Export
	if cu.export == "" {
		if len(cu.exports) == 0 {
			return skip("name one: nfsrdma doctor "+cu.host()+":/export", "no export was named, and none is listed")
		}
		cu.export = cu.exports[0].Dir
	}
	cu.export = path.Clean("/" + cu.export)
	var res mount3.MntRes
	const most = 4 + 4 + mount3.MaxHandle + 4 + 4*mount3.MaxFlavor
	err := cu.mount.Call(ctx, mountProc(mount3.ProcMnt, "MNT", most), &mount3.PathArgs{Path: cu.export}, &res, nil, 0)
	switch {
	case err != nil:
		return fail(cu.authAdvice(err), "%s: %v", cu.export, err)
	case res.Status != mount3.OK:
		return fail(cu.refusalAdvice(res.Status), "%s: the server refuses: %s", cu.export, res.Status.String())
	}
	cu.atEnd(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), cu.timeLimit(time.Second))
		defer cancel()
		return cu.mount.Call(ctx, mountProc(mount3.ProcUmnt, "UMNT", 0), &mount3.PathArgs{Path: cu.export}, nil, nil, 0)
	})
	if cu.root, err = nfs3.MakeFH(res.Handle); err == nil && len(res.Handle) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fail("report it to the maker of the server", "%s: no handle that can be one: %v", cu.export, err)
	}
	names := make([]string, len(res.Flavors))
	for i, f := range res.Flavors {
		names[i] = nfsclient.SecName(oncrpc.Flavor(f))
	}
	text := fmt.Sprintf("%s: a handle of %d bytes, flavors %s", cu.export, len(res.Handle), yes(len(names) > 0, strings.Join(names, ", "), "not told"))
	if cu.flavors = res.Flavors; !cu.usableFlavor() {
		return fail("give --sec one of these flavors, or export it with one of this client's: sys, krb5, krb5i, krb5p (sec= of exports(5))", "%s", text)
	}
	cu.mounted = true
	return ok("%s", text)
}

// authAdvice returns the advice about a rejected MOUNT call.
func (cu *checkup) authAdvice(err error) string {
	var auth *transport.AuthError
	switch {
	case errors.As(err, &auth) && cu.portMatters(cu.mount == cu.rdma):
		return "the server does not take AUTH_SYS from this host or port: run as root (reserved port), or export with insecure"
	case errors.As(err, &auth):
		return "the server does not take AUTH_SYS from this host: see its log, and sec= of exports(5)"
	}
	return "see the server's log: its MOUNT service took the call and did not do it"
}

// refusalAdvice returns the advice about a status of MNT.
func (cu *checkup) refusalAdvice(s mount3.Status) string {
	listed := slices.ContainsFunc(cu.exports, func(e mount3.Export) bool {
		dir := path.Clean("/" + e.Dir)
		return dir == "/" || cu.export == dir || strings.HasPrefix(cu.export, dir+"/")
	})
	if len(cu.exports) > 0 && !listed { // some servers reply ACCES for unexported paths
		return "it is not exported: the list begins with " + cu.exports[0].Dir + "; nfsrdma showmount " + cu.host() + " shows it all"
	}
	switch s {
	case mount3.ErrNoEnt, mount3.ErrNotDir:
		return "no such directory is exported: check the path on the server"
	case mount3.ErrAcces, mount3.ErrPerm:
		for _, e := range cu.exports {
			if path.Clean("/"+e.Dir) == cu.export {
				return cu.letInAdvice(e.Groups, true)
			}
		}
		return cu.letInAdvice(nil, false)
	}
	return "see the server's log"
}
