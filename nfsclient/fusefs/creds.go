// Callers: who acts on the server for whom here.

package fusefs

import (
	"bufio"
	"bytes"
	"fmt"
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

// A caller is a user as the server sees him. There is one of each: they are compared as pointers.
type caller struct {
	client *nfsclient.Client // calls in his name
	uid    uint32
}

// How long the groups of a process are believed, and how many processes and callers are kept.
const (
	groupsFor   = time.Second
	maxProcs    = 1024
	maxCallers  = 1024
	statusBytes = 1 << 20 // a user may be in 65,536 groups
)

// callers finds the caller of a request. FUSE brings user, group and process; the supplementary
// groups are the process's, which /proc has. A process that is not seen there, in another PID
// namespace, has those of its user's login, by the users and groups of this machine. If its group
// is not the login's it has none, since it has possibly given them up.
type callers struct {
	// set once
	client  *nfsclient.Client
	machine string
	fixed   *caller // acts for all; nil: each as himself

	mu    sync.Mutex // guards all below
	login func(uid, gid string) []string
	procs map[fuse.Caller]member
	known map[string]*caller
}

// A member is a process whose groups are known.
type member struct {
	who   *caller
	until time.Time
}

func (c *callers) init(f *fileSystem) {
	c.client = f.client
	c.procs, c.known = make(map[fuse.Caller]member), make(map[string]*caller)
	c.machine = transport.SysCred().Machine
	c.login = loginGroups
	if f.opt.Cred != nil {
		c.fixed = &caller{client: f.client, uid: f.opt.Cred.UID}
	}
}

// of is the caller of a request.
func (c *callers) of(from *fuse.Caller) *caller {
	if c.fixed != nil {
		return c.fixed
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
	c.procs[*from] = member{who, now.Add(groupsFor)}
	return who
}

// find returns the one caller of these ids. The caller holds mu.
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

// groupsOf returns the supplementary groups of a caller without its gid, at most as many as
// AUTH_SYS carries. A process that is gone has none; login returns those of a user and its group.
func groupsOf(from *fuse.Caller, login func(uid, gid string) []string) (groups []uint32) {
	var words []string
	if pid := seen(from.Pid); pid == 0 {
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

// loginGroups returns the groups of a user if its login has the group gid. An unknown user has
// none.
func loginGroups(uid, gid string) []string {
	u, err := user.LookupId(uid)
	if err != nil || u.Gid != gid {
		return nil
	}
	groups, _ := u.GroupIds()
	return groups
}

// ownProc reports whether /proc belongs to our PID namespace. In another one the numbers of FUSE
// are not those of /proc.
var ownProc = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
})

// seen is the number in /proc of FUSE's process pid, or 0.
func seen(pid uint32) uint32 {
	if !ownProc() {
		return 0
	}
	return pid
}

// statusLines gives the lines of /proc/PID/status, key and value, and reports whether there is such
// a process.
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
