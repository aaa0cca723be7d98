// Checks of the export: sizes, space, and our identity there.

package doctor

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/internal/rights"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// goodTransfer is the READ and WRITE size above which speed hardly grows, in bytes.
const goodTransfer = 64 << 10

// checkFSINFO connects as a client does and requests the transfer sizes.
func checkFSINFO(ctx context.Context, cu *checkup) Finding {
	o := nfsclient.Options{Transport: nfsclient.RDMA, CRC: cu.CRC, CallTimeout: cu.timeLimit(checkTime), RetryTimeout: cu.timeLimit(checkTime)}
	if cu.roce {
		o.Provider = nfsclient.RoCE
	}
	port, over := cu.RDMAPort, "RDMA"
	if cu.rdma == nil || cu.TCP && cu.tcp != nil {
		o.Transport, port, over = nfsclient.TCP, cu.TCPPort, "TCP"
	}
	if err := cu.secure(&o); err != nil {
		return fail("see the options", "%v", err)
	}
	c, err := nfsclient.Dial(ctx, cu.portAddr(port), o)
	if err != nil {
		return fail("see the ports above", "no connection: %v", err)
	}
	cu.atEnd(c.Close)
	if c, err = c.WithFlavors(cu.export, cu.flavors); err != nil {
		return fail("see the checks of Kerberos above", "%v", err)
	}
	info, err := c.Fsinfo(ctx, cu.root)
	if err != nil {
		if f, found := cu.demandOfTLS(ctx, o, port, err); found {
			return f
		}
		cu.refused = true
		return fail(cu.statusAdvice(err), "over %s: %v", over, err)
	}
	if info.Rtmax == 0 || info.Wtmax == 0 {
		return fail("report it to the maker of the server", "the server takes READs of at most %d and WRITEs of at most %d bytes", info.Rtmax, info.Wtmax)
	}
	cu.nfs, cu.rtmax, cu.wtmax = c, int(min(info.Rtmax, pieceSize)), int(min(info.Wtmax, pieceSize))
	text := fmt.Sprintf("over %s: READ %s, WRITE %s, files up to %s", over, size(uint64(info.Rtmax)), size(uint64(info.Wtmax)), size(info.Maxfilesize))
	if min(info.Rtmax, info.Wtmax) < goodTransfer {
		return warn("raise the server's largest transfer (with Linux: /proc/fs/nfsd/max_block_size)", "%s", text)
	}
	return ok("%s", text)
}

// statusAdvice returns the advice about a failed call on MNT's handle.
func (cu *checkup) statusAdvice(err error) string {
	var status *nfsclient.StatusError
	if asStatus(err, &status) {
		switch status.Status {
		case nfs3.ErrStale, nfs3.ErrBadHandle:
			return "MOUNT and NFS are not of one server: is the port right, and does the name lead to one host? (exportfs -f on the server drops what it remembers)"
		case nfs3.ErrAcces, nfs3.ErrPerm:
			if cu.portMatters(cu.rdma != nil && !(cu.TCP && cu.tcp != nil)) {
				return "the export may want a reserved port (run as root, or export with insecure) or lists other hosts"
			}
			return "the export lists other hosts for NFS than for MOUNT: see the server's log"
		}
	}
	return "see the server's log"
}

// checkSpace requests the free space.
func checkSpace(ctx context.Context, cu *checkup) Finding {
	st, err := cu.nfs.Fsstat(ctx, cu.root)
	if err != nil {
		return warn(cu.statusAdvice(err), "%v", err)
	}
	text := fmt.Sprintf("%s of %s free for us, %d of %d files", size(st.Abytes), size(st.Tbytes), st.Afiles, st.Tfiles)
	switch {
	case cu.readOnly, st.Tbytes == 0: // a program's tree may report no space
	case st.Abytes == 0:
		return warn("make room on the server, or see the quota of this user: writes will fail", "%s", text)
	case st.Afiles == 0 && st.Tfiles > 0:
		return warn("remove files on the server: nothing new can be created", "%s", text)
	}
	return ok("%s", text)
}

// checkWho calls ACCESS for this user's rights in the export's root. The check makes no file, so it
// only guesses how the server maps the user.
func checkWho(ctx context.Context, cu *checkup) Finding {
	attr, err := cu.nfs.Getattr(ctx, cu.root)
	if err != nil {
		return fail(cu.statusAdvice(err), "GETATTR: %v", err)
	}
	cu.rootAttr = attr
	got, err := cu.nfs.Access(ctx, cu.root, nfs3.AccessAll)
	if err != nil {
		return fail(cu.statusAdvice(err), "ACCESS: %v", err)
	}
	cred := transport.SysCred()
	view := rights.View{UID: cred.UID, GID: cred.GID, GIDs: cred.GIDs, Attr: attr, Access: got}
	view.AskReadOnly(ctx, cu.nfs, cu.root)
	cu.readOnly = view.Export == rights.ReadOnly
	may := func(bits uint32) string { return yes(got&bits == bits, "yes", "no") }
	text := fmt.Sprintf("uid %d gid %d: list %s, enter %s, write %s (root directory: mode %04o, owner %d:%d)", cred.UID, cred.GID,
		may(nfs3.AccessRead), may(nfs3.AccessLookup), may(nfs3.AccessExtend), attr.Mode&0o7777, attr.UID, attr.GID)
	switch {
	case got&nfs3.AccessLookup == 0:
		return fail("chmod or chown the directory on the server so that this user may enter it, or map users (anonuid= of exports(5))", "%s", text)
	case cu.readOnly:
		return warn(view.NoWrite(), "%s", text)
	case got&nfs3.AccessExtend == 0:
		return warn("only needed for writing: "+view.NoWrite(), "%s", text)
	}
	return ok("%s", text)
}

// size writes a number of bytes in binary units.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	v, u := float64(n)/1024, 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return fmt.Sprintf("%.4g %ciB", v, units[u])
}
