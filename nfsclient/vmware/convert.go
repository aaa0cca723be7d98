// Conversion to the attributes and errors of go-nfs-client.

package vmware

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/vmware/go-nfs-client/nfs"
)

// wire converts a refusal by the server to go-nfs-client's error, for its IsNotDirError and
// os.IsNotExist. Other errors are unchanged.
func wire(err error) error {
	var s *nfsclient.StatusError
	if errors.As(err, &s) {
		return nfs.NFS3Error(uint32(s.Status))
	}
	return err
}

func nfsTime(t nfs3.Time) nfs.NFS3Time { return nfs.NFS3Time{Seconds: t.Sec, Nseconds: t.Nsec} }

func fattr(a *nfs3.Fattr) *nfs.Fattr {
	return &nfs.Fattr{
		Type: uint32(a.Type), FileMode: a.Mode, Nlink: a.Nlink, UID: a.UID, GID: a.GID, Filesize: a.Size, Used: a.Used,
		SpecData: [2]uint32{a.Rdev.Major, a.Rdev.Minor}, FSID: a.Fsid, Fileid: a.Fileid,
		Atime: nfsTime(a.Atime), Mtime: nfsTime(a.Mtime), Ctime: nfsTime(a.Ctime),
	}
}
