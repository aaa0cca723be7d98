// Facts that are read from the machine, when they are read again, and the tests that change them.

package changing

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A fact is something that a server or a mount reads from the machine.
type fact struct {
	fact, again string
	test        string   // in this package, or with a path before it
	read        []string // the files that read it
}

// facts lists all facts. TestFacts finds files that read a fact and are not listed.
var facts = []fact{
	{"an export's directory", "each second while it cannot be opened", "TestDirectoryAppears", nil},
	{"the mount at an export's directory", "when the kernel reports changed mounts", "TestMountedOver",
		[]string{"cmd/nfsrdmad/program/covered.go", "nfsserver/osfs/mounts.go"}},
	{"that an export's file system is mounted", "when the kernel says that mounts have changed", "TestUnmountedByForce", nil},
	{"the addresses of the machine, for TCP", "never: the kernel serves one once it is there", "TestAddressAppears", []string{"cmd/nfsrdmad/program/addr.go"}},
	{"the addresses of the machine, for RoCE", "each second", "cmd/nfsrdmad/program.TestRoCEPartlyServed",
		[]string{"rnic/roce/listen.go", "rnic/roce/port.go"}},
	{"the interface of a multicast group", "when a group is joined", "rnic/roce.TestMulticastBetweenHosts", []string{"rnic/roce/udp/group.go"}},
	{"the MTU of an interface", "when packets are lost or refused", "cmd/nfsrdmad/program.TestRoCEInterfaceMadeSmaller", nil},
	{"the interfaces by which a socket may be bound", "with each connection of this machine", "transport.TestOwnerOfPeer", []string{"transport/sockdiag.go"}},
	{"the file of clients with locks", "at start, and with each new client while it cannot be kept", "TestStateDamaged", nil},
	{"room for state", "with each new client", "TestStateDirectoryFull", nil},
	{"the limit on descriptors", "each second while an export lacks some, and with each export", "TestDescriptorsRunOut",
		[]string{"nfsserver/osfs/fdbudget.go"}},
	{"the limit on descriptors, for connections and locks", "never: it is that of the start", "cmd/nfsrdmad/program.TestLimits",
		[]string{"cmd/nfsrdmad/program/limits.go", "cmd/nfsrdmad/program/status.go", "nfsserver/nlm/service.go"}},
	{"users and groups", "after a minute; 5 seconds after a failure", "TestUsersChange", []string{"nfsserver/groups.go"}},
	{"groups of users of programs in other PID namespaces", "each second", "nfsclient/fusefs.TestUnseenProgramHasItsUsersGroups",
		[]string{"nfsclient/fusefs/creds.go"}},
	{"names of hosts in exports", "after a minute, or ten seconds after an error", "TestNamesChange",
		[]string{"nfsserver/exports/names.go", "cmd/nfsrdmad/program/check.go", "cmd/nfsrdmad/program/metrics.go"}},
	{"the address of a mount's server", "when it does not answer", "TestServerMoves", []string{"nfsclient/serveraddr.go", "rnic/roce/connect.go"}},
	{"the time of the day", "whenever it is written or compared: see wallClock", "TestClockSetUnderServer", nil},
	{"a sleep of the machine", "when the kernel says that a clock has changed", "nfsclient/fusefs.TestSleepIsNoticed", nil},
	{"the host's name", "at start, and when a mount begins: its locks are by that name until it ends", "TestHostNameChanges",
		[]string{"transport/auth.go", "nfsserver/nlm/service.go", "cmd/nfsrdmad/program/banner.go", "cmd/nfsrdmad/program/mountlines.go"}},
	{"/dev/fuse", "when a mount begins", "TestFUSEGone", []string{"nfsclient/fusefs/fuseloop/mount.go", "cmd/internal/mounter/point.go", "nfsclient/fusefs/fuseloop/device.go"}},
	{"/etc/fuse.conf", "when a mount begins", "cmd/internal/mounter.TestUserAllowOther", []string{"cmd/internal/mounter/point.go"}},
	{"system calls that the kernel has and allows", "when an export is opened, or with their first use", "TestKernelForbids", nil},
	{"/proc/self/fd, by which open files are opened again", "with each use", "nfsserver/osfs.TestHandlesNameTheirFile", []string{"nfsserver/osfs/ref.go"}},
	{"locks of programs of this machine", "with each lock that waits", "nfsserver/nlm.TestProgramsAsTheKernelListsThem", []string{"nfsserver/nlm/programs.go"}},
	{"the umask", "at start", "nfsserver/osfs.TestReplacedObjectKeepsItsAttributes", []string{"nfsserver/osfs/create.go"}},
	{"processors", "when Go's scheduler follows them", "rnic/internal/rxwait.TestLimitFollowsProcessors",
		[]string{"nfsserver/osfs/parallellisting.go", "rnic/internal/rxwait/spin.go"}},
	{"files that are watched by a poller", "when a reader is made", "rnic/internal/rxwait.TestMask", []string{"rnic/internal/rxwait/pollermask.go"}},
	{"mounts of this machine, of the same server", "when a mount begins", "nfsclient/fusefs.TestOtherMounts",
		[]string{"nfsclient/fusefs/submounts.go", "nfsclient/fusefs/crash.go", "cmd/internal/mountctl/mountinfo.go"}},
	{"the start of the machine", "when a mount begins", "nfsclient/fusefs.TestNetworksHaveNamesOfTheirOwn", []string{"cmd/internal/mounter/crash.go"}},
	{"the start of the machine, for sessions of JuiceFS", "when a volume is opened", "nfsserver/juicefs.TestLocksOfTheProcessBefore", []string{"nfsserver/juicefs/session.go"}},
	{"krb5.conf, and names of Kerberos services in DNS", "krb5.conf at start, names with each context", "transport/gss/krb5.TestConfig",
		[]string{"transport/gss/krb5/config.go", "transport/gss/krb5/kdcnet.go"}},
	{"the host's name, for a new authority's", "when the authority is made", "cmd/nfsrdmad/program.TestCertSteps", []string{"cmd/nfsrdmad/program/cert.go"}},
	{"users of Kerberos principals", "with each context, after a minute; 5 seconds after a failure", "nfsserver/idmap.TestAges", []string{"nfsserver/idmap/idmap.go"}},
	{"the host's name, for its principal in a keytab", "with each login", "transport/gss/krb5.TestMachinePrincipal", []string{"transport/gss/krb5/credentials.go"}},
	{"that SELinux is on", "when a mount begins", "cmd/internal/mounter.TestFUSEOptions", []string{"cmd/internal/mounter/request.go"}},
	{"the system call that a program waits in", "with each call of it that may have to be ended", "nfsclient/fusefs.TestSpecialFilesAreForThoseWithRights", []string{"nfsclient/fusefs/special.go"}},
	{"networks for broadcasts", "with each call of BroadcastAddrs", "transport/portmap.TestBroadcastByRpcbind", []string{"transport/broadcast.go"}},
	{"the address of a port mapper's host", "with each Dial", "transport/portmap.TestMapperWithRpcbind", []string{"transport/portmap/mapper.go"}},
	{"the kernel's read-ahead", "when a mount begins", "test/mount.TestFigures", []string{"nfsclient/fusefs/mount.go"}},
}

// TestFacts: each fact has a test, and each file that reads a fact is listed.
func TestFacts(t *testing.T) {
	listed := map[string]bool{}
	for _, f := range facts {
		dir, name := filepath.Split(f.test)
		if i := bytes.IndexByte([]byte(name), '.'); i >= 0 {
			dir, name = filepath.Join("..", "..", dir, name[:i]), name[i+1:]
		}
		files, err := filepath.Glob(path.Join(dir, "*_test.go"))
		must.Succeed(t, err)
		if !slices.ContainsFunc(files, func(file string) bool {
			b, err := os.ReadFile(file)
			return err == nil && bytes.Contains(b, []byte("func "+name+"(t *testing.T)"))
		}) {
			t.Errorf("%s, read %s: there is no %s", f.fact, f.again, f.test)
		}
		for _, file := range f.read {
			listed[file] = true
		}
	}
	found := sourcesWith(t, regexp.MustCompile(`user\.(Lookup|Current)|net\.(Interface|Lookup|DefaultResolver)|os\.Hostname|Getrlimit|"/(proc|sys|dev)/|"/etc/[a-z.]+"|NumCPU|GOMAXPROCS\(`))
	for file := range found {
		if !listed[file] {
			t.Errorf("%s reads a fact of the machine that is not in the list: say there when it is read again, and which test changes it", file)
		}
	}
	for file := range listed {
		if !found[file] {
			t.Errorf("%s reads no fact of the machine, and is in the list", file)
		}
	}
}
