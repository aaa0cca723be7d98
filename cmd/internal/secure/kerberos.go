// Kerberos credentials of local users, for all servers.

package secure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/ccache"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Kerberos has the credentials of this machine's users. A user's tickets are looked up whenever a
// security context is made, so new tickets are used without a new mount.
type Kerberos struct {
	// set once
	keytab    string // "": the keytab in krb5.conf
	rootCache bool
	conf      *krb5.Config
	confErr   error // the error from reading conf
	find      *ccache.Finder
	log       func(line string)

	mu      sync.Mutex // guards the fields below
	servers map[string]*gss.Client
	known   map[string]*krb5.Credentials // by user and place
	logged  map[uint32]time.Time         // the last line about a user without tickets
}

// newKerberos returns the credentials for settings. log may be nil.
func newKerberos(s *Settings, log func(line string)) *Kerberos {
	if log == nil {
		log = func(string) {}
	}
	k := &Kerberos{keytab: s.Keytab, rootCache: s.RootCache, find: ccache.System(""), log: log,
		servers: map[string]*gss.Client{}, known: map[string]*krb5.Credentials{}, logged: map[uint32]time.Time{}}
	k.conf, k.confErr = krb5.LoadConfig()
	return k
}

// ownTime limits the check for tickets of this process's user, which may query a key server.
const ownTime = 10 * time.Second

// own returns the credentials of this process's user, if there are any; see nfsclient.Options.GSS.
func (k *Kerberos) own(f oncrpc.Flavor, server string) (*transport.Auth, error) {
	uid := uint32(os.Geteuid())
	ctx, cancel := context.WithTimeout(context.Background(), ownTime)
	defer cancel()
	if _, _, _, err := k.Principal(ctx, uid); err != nil {
		return nil, err
	}
	return k.Auth(uid, f, server), nil
}

// Auth returns the credentials for a user's calls to a server.
func (k *Kerberos) Auth(uid uint32, f oncrpc.Flavor, server string) *transport.Auth {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.servers[server]
	if c == nil {
		c = gss.NewClient(gss.ClientConfig{Initiator: func(_ context.Context, user string) (gss.Initiator, error) {
			n, err := strconv.ParseUint(strings.TrimPrefix(user, userPrefix), 10, 32)
			if err != nil {
				return nil, err
			}
			return &initiator{k: k, uid: uint32(n), server: server}, nil
		}})
		k.servers[server] = c
	}
	return c.Auth(userPrefix+strconv.FormatUint(uint64(uid), 10), service(f))
}

// userPrefix begins the names of users, as errors show them.
const userPrefix = "uid "

// A TicketError means that a user has no ticket for a server. errors.Is matches EACCES, or
// EKEYEXPIRED if the tickets have expired, which programs get from the kernel's client as well.
type TicketError struct {
	UID     uint32
	Expired bool
	Code    int32 // of Kerberos, as krb5.Code returns it; 0: none
	Err     error // the reason
}

func (e *TicketError) Error() string {
	if e.Expired {
		return fmt.Sprintf("the Kerberos tickets of uid %d have expired: run kinit as that user (%v)", e.UID, e.Err)
	}
	if errors.Is(e.Err, ccache.ErrNone) {
		return fmt.Sprintf("uid %d has no usable Kerberos ticket: run kinit as that user (%v)", e.UID, e.Err)
	}
	return fmt.Sprintf("no Kerberos ticket for the server can be had for uid %d: %v", e.UID, e.Err)
}

// Is matches Errno. The reason is not unwrapped: an errno in it, such as ECONNREFUSED from a key
// server, is not about the file that a program uses.
func (e *TicketError) Is(target error) bool {
	return target == error(e.Errno())
}

// As stores Errno in a *syscall.Errno.
func (e *TicketError) As(target any) bool {
	p, ok := target.(*syscall.Errno)
	if ok {
		*p = e.Errno()
	}
	return ok
}

// Errno returns EACCES or EKEYEXPIRED.
func (e *TicketError) Errno() syscall.Errno {
	if e.Expired {
		return syscall.EKEYEXPIRED
	}
	return syscall.EACCES
}

// logPause is the minimum time between two log lines about one user without tickets. maxLogged
// bounds the users remembered for it.
const (
	logPause  = time.Minute
	maxLogged = 1024
)

// complain logs a user without tickets.
func (k *Kerberos) complain(e *TicketError) {
	now := time.Now()
	k.mu.Lock()
	quiet := now.Sub(k.logged[e.UID]) < logPause
	if !quiet {
		if len(k.logged) >= maxLogged {
			clear(k.logged)
		}
		k.logged[e.UID] = now
	}
	k.mu.Unlock()
	if !quiet {
		k.log(e.Error())
	}
}
