// The handle key shared by all servers of a volume, stored in the volume's own metadata.

package juicefs

import (
	"crypto/rand"
	"fmt"
	"syscall"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// keyName is the extended attribute of the volume's root that stores the handle key. The kernel
// shows "trusted" attributes only to root, also in a mount of the volume; this server shows none.
const keyName = "trusted.nfsrdma.handle-key"

// handleKey returns the volume's key. The first server with write access creates it; of several,
// one succeeds. Zero: there is none, and the volume is read-only.
func handleKey(m meta.Meta, readOnly bool) (key [nfsserver.KeySize]byte, err error) {
	has, err := readHandleKey(m)
	if err != nil || has != key || readOnly {
		return has, err
	}
	rand.Read(key[:])
	switch no := m.SetXattr(system, rootIno, keyName, key[:], meta.XattrCreate); no {
	case 0:
		return key, nil
	case syscall.EEXIST: // another server was faster
		return readHandleKey(m)
	default:
		return [nfsserver.KeySize]byte{}, no
	}
}

func readHandleKey(m meta.Meta) (key [nfsserver.KeySize]byte, err error) {
	var b []byte
	no := m.GetXattr(system, rootIno, keyName, &b)
	switch {
	case no == meta.ENOATTR:
		return key, nil
	case no != 0:
		return key, no
	case len(b) != len(key):
		return key, fmt.Errorf("the attribute %s of the volume's root has %d bytes, want %d: remove it, and clients have to mount again", keyName, len(b), len(key))
	}
	return [nfsserver.KeySize]byte(b), nil
}

// Name reads a volume's name from its metadata service.
func Name(url string) (string, error) {
	conf := meta.DefaultConf()
	conf.ReadOnly = true
	m, err := connect(url, conf)
	if err != nil {
		return "", err
	}
	format, err := m.Load(false)
	if e := m.Shutdown(); err == nil {
		err = e
	}
	if err != nil {
		return "", fmt.Errorf("juicefs: %w", err)
	}
	return format.Name, nil
}
