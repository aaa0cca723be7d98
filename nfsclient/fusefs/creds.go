// Callers: mapping local users to the credentials of their calls.

package fusefs

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A caller is one set of credentials. Equal credentials share one caller, compared by pointer.
type caller struct {
	client *nfsclient.Client // sends calls with these credentials
	uid    uint32            // known to the server; unknownUID with Kerberos
}

// unknownUID is the uid of Kerberos callers: the server's user for a principal may have another
// number than the local one. It is no valid uid (chown(2)).
const unknownUID = math.MaxUint32

// The lifetime of cached process groups, and bounds on cached processes and callers.
const (
	groupsFor   = time.Second
	maxProcs    = 1024
	maxCallers  = 1024
	statusBytes = 1 << 20 // a user may be in 65,536 groups
)

// callers finds the caller for a request. FUSE gives user, group and process; /proc has the
// process's supplementary groups. A process in another PID namespace is missing from /proc: the
// mount then uses the user's login groups from this machine's databases. If the process's group
// differs from the login group, the mount uses none, because the process may have dropped them.
//
// With Kerberos the uid alone decides: the server knows the groups of its principals.
type callers struct {
	// set once
	client  *nfsclient.Client
	machine string
	fixed   *caller // sends all users' calls; nil: each user's own credentials
	// kerberos returns a user's credentials; nil: AUTH_SYS
	kerberos func(uid uint32) *transport.Auth

	mu    sync.Mutex // guards all below
	login func(uid, gid string) []string
	procs map[fuse.Caller]processCaller
	known map[string]*caller
	users map[uint32]*caller // with Kerberos, by local uid
}

// A processCaller is a process with known groups.
type processCaller struct {
	who   *caller
	until time.Time
}

// init takes the fixed credentials from the options, if there are any.
func (c *callers) init(f *fileSystem) {
	c.client = f.client
	c.procs, c.known, c.users = make(map[fuse.Caller]processCaller), make(map[string]*caller), make(map[uint32]*caller)
	if f.client.Kerberos() {
		c.kerberos = f.opt.Kerberos
	}
	c.machine = transport.SysCred().Machine
	c.login = loginGroups
	if f.opt.Cred != nil {
		c.fixed = &caller{client: f.client, uid: f.opt.Cred.UID}
	}
}

// of returns the caller for a request.
func (c *callers) of(from *fuse.Caller) *caller {
	if c.fixed != nil {
		return c.fixed
	}
	if c.kerberos != nil {
		return c.ofUser(from)
	}
	c.mu.Lock()
	m, ok := c.procs[*from]
	login := c.login
	c.mu.Unlock()
	now := time.Now()
	if ok && now.Before(m.until) {
		return m.who
	}
	groups := groupsOf(from, login)
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.find(from.Uid, from.Gid, groups)
	if len(c.procs) >= maxProcs {
		clear(c.procs)
	}
	c.procs[*from] = processCaller{who, now.Add(groupsFor)}
	return who
}

// ofUser returns the caller of a user with Kerberos. Only calls to other programs use the ids.
func (c *callers) ofUser(from *fuse.Caller) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.users[from.Uid]
	if who == nil {
		if len(c.users) >= maxCallers {
			clear(c.users)
		}
		sys := transport.Cred{Flavor: oncrpc.FlavorSys, Machine: c.machine, UID: from.Uid, GID: from.Gid}
		who = &caller{uid: unknownUID, client: c.client.AsAuth(c.client.Flavor(), c.kerberos(from.Uid), sys)}
		c.users[from.Uid] = who
	}
	return who
}

// find returns the shared caller for these ids, made if necessary. The caller holds c.mu.
func (c *callers) find(uid, gid uint32, groups []uint32) *caller {
	key := fmt.Sprint(uid, gid, groups)
	if who := c.known[key]; who != nil {
		return who
	}
	if len(c.known) >= maxCallers {
		clear(c.known)
	}
	who := &caller{uid: uid, client: c.client.As(transport.Cred{
		Flavor: oncrpc.FlavorSys, Machine: c.machine, UID: uid, GID: gid, GIDs: groups,
	})}
	c.known[key] = who
	return who
}

// groupsOf returns a process's supplementary groups without its gid, at most as many as AUTH_SYS
// carries. An ended process has none. login returns a user's login groups.
func groupsOf(from *fuse.Caller, login func(uid, gid string) []string) (groups []uint32) {
	var words []string
	if pid := procPID(from.Pid); pid == 0 {
		words = login(strconv.Itoa(int(from.Uid)), strconv.Itoa(int(from.Gid)))
	} else {
		statusLines(pid, func(key string, rest []byte) {
			if key == "Groups" {
				words = strings.Fields(string(rest))
			}
		})
	}
	for _, word := range words {
		g, err := strconv.ParseUint(word, 10, 32)
		if err == nil && uint32(g) != from.Gid && len(groups) < oncrpc.MaxGIDs {
			groups = append(groups, uint32(g))
		}
	}
	return groups
}

// loginGroups returns a user's groups if gid is the login group. An unknown user has none.
func loginGroups(uid, gid string) []string {
	u, err := user.LookupId(uid)
	if err != nil || u.Gid != gid {
		return nil
	}
	groups, _ := u.GroupIds()
	return groups
}

// ownProc reports whether /proc shows our PID namespace. If not, its numbers differ from FUSE's.
var ownProc = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// procPID maps FUSE's process number to its number in /proc, or 0.
func procPID(pid uint32) uint32 {
	if !ownProc() {
		return 0
	}
	return pid
}

// statusLines calls line with each key and value in /proc/PID/status. It reports whether the
// process exists.
func statusLines(pid uint32, line func(key string, rest []byte)) bool {
	if pid == 0 {
		return false
	}
	file, err := os.Open("/proc/" + strconv.Itoa(int(pid)) + "/status")
	if err != nil {
		return false
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, statusBytes)
	for lines.Scan() {
		key, rest, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		line(string(key), rest)
	}
	return true
}
