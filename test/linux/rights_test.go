// Users' rights through a Linux mount, on a file system that has ACLs, quotas and reserved blocks.

package linux

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/wire"
)

// makeVolume runs in the serving guest, since the host's kernel need not have quotas: an ext4 with
// 24 MB, a quarter for root alone, where user 1000 may have 2 MB and 10 files. The shell uses its
// own mke2fs unless it gets a path.
const makeVolume = `
set -e
modprobe quota_v2
modprobe ext4
modprobe brd rd_nr=1 rd_size=24576
/sbin/mke2fs -q -t ext4 -m 25 -J size=2 -O quota -E quotatype=usrquota /dev/ram0
mount -t ext4 -o usrquota,acl /dev/ram0 /export
chmod 777 /export
setquota -u 1000 0 2048 0 10 /export
dmesg -c > /dev/null`

// startServer starts our server in the guest. Its process number and exit status go to files,
// because another script ends it.
const startServer = `
(sh -c 'echo $$ > /run/pid; exec /tmp/nfsrdmad serve /export --addr 0.0.0.0 --no-root-squash --state-dir /run/state --crc auto'
echo $? > /run/status) > /run/nfsrdmad.log 2>&1 < /dev/null &
for i in $(seq 6000); do
	ss -Hltn | grep -q ':20049 ' && ss -Hltn | grep -q ':2049 ' && exit 0
	sleep 0.1
done
cat /run/nfsrdmad.log; exit 1`

// stopServer stops our server, and checks that it ends by itself and holds nothing of the file
// system.
const stopServer = `
kill -INT $(cat /run/pid)
for i in $(seq 3000); do [ -e /run/status ] && break; sleep 0.1; done
[ "$(cat /run/status)" = 0 ] && umount /export || { cat /run/nfsrdmad.log; exit 1; }`

// prepareVolume runs on the server before each mount. User 3000 is also of group 1000.
const prepareVolume = `
cd /export && rm -rf given group taken inherits setid blocks-* inode-* fill reserved own defaults || exit 1
echo content | tee given group taken > setid
mkdir inherits
chown 1000:1000 given && chmod 600 given && setfacl -m u:2000:rw given && [ $(stat -c %a given) = 660 ] || exit 1
chown 0:1000 group && chmod 640 group
chmod 644 taken && setfacl -m u:1000:--- taken || exit 1
chmod 777 inherits && setfacl -d -m u::rwx,u:2000:rwx,g::r-x,m::rwx,o::- inherits || exit 1
chown 2000:2000 setid && chmod 6777 setid`

// shows runs on both sides: it compares a file's ACL with that of getfacl, in one line.
const shows = `
shows() {
	acl=$(echo $(getfacl -pncE "$1" 2>&1))
	[ "$acl" = "$2" ] || echo "$1 has $acl, want $2"
}
`

// asUsers runs on the client; it prints only faults.
const asUsers = `
as() { user=$1; shift; su "$user" -c "$*" > /tmp/said 2>&1; }
allowed() { as "$@" || echo "refused to $*: $(cat /tmp/said)"; }
refused() {
	why=$1; shift
	if as "$@"; then echo "allowed to $*"
	elif ! grep -q "$why" /tmp/said; then echo "refused to $*: $(cat /tmp/said), want $why"; fi
}
no="Permission denied"

# An ACL gives what the mode hides; the mode shows the ACL's mask as the group's bits.
[ $(stat -c %a /mnt/given) = 660 ] || echo "given has mode $(stat -c %a /mnt/given)"
allowed u2000 'grep -q content /mnt/given'
allowed u2000 'echo more >> /mnt/given'
allowed u3000 'cat /mnt/group'
refused "$no" u3000 'cat /mnt/given'
refused "$no" u3000 'echo more >> /mnt/given'
allowed u1000 'grep -q more /mnt/given'

# An ACL takes what the mode gives.
refused "$no" u1000 'cat /mnt/taken'
allowed u2000 'cat /mnt/taken'

# New objects have what the default ACL of their directory says, whatever mode they are made with.
allowed u3000 'umask 0; echo content > /mnt/inherits/file && mkdir /mnt/inherits/dir && echo content > /mnt/inherits/dir/file'
allowed u2000 'echo more >> /mnt/inherits/file'
allowed u2000 'echo more >> /mnt/inherits/dir/file'
refused "$no" u1000 'cat /mnt/inherits/file'
refused "$no" u1000 'ls /mnt/inherits/dir'

# The owner of a file gives another user what its mode hides, and takes it back; mode and mask are one.
allowed u3000 'umask 077; echo secret > /mnt/own && setfacl -m u:2000:r /mnt/own'
shows /mnt/own 'user::rw- user:2000:r-- group::--- mask::r-- other::---'
[ $(stat -c %a /mnt/own) = 640 ] || echo "own has mode $(stat -c %a /mnt/own)"
allowed u2000 'grep -q secret /mnt/own'
refused "$no" u1000 'cat /mnt/own'
refused "Operation not permitted" u2000 'setfacl -m u:1000:r /mnt/own'
allowed u3000 'chmod 600 /mnt/own'
shows /mnt/own 'user::rw- user:2000:r-- group::--- mask::--- other::---'
refused "$no" u2000 'cat /mnt/own'
allowed u3000 'setfacl -b /mnt/own && setfacl -m g:2000:rw /mnt/own'
allowed u2000 'echo more >> /mnt/own'

# A default ACL that is set here is inherited, and no umask takes from it.
allowed u3000 'mkdir /mnt/defaults && setfacl -d -m u:2000:rwx,g::r-x,o::- /mnt/defaults'
allowed u3000 'umask 077; echo content > /mnt/defaults/file && mkdir /mnt/defaults/dir'
shows /mnt/defaults/file 'user::rw- user:2000:rwx group::r-x mask::rw- other::---'
allowed u2000 'echo more >> /mnt/defaults/file && : > /mnt/defaults/dir/file'
allowed u3000 'setfacl -k /mnt/defaults && umask 022 && : > /mnt/defaults/later'
shows /mnt/defaults/later 'user::rw- group::r-- other::r--'

# A write by another user than the owner clears the set-id bits.
[ $(stat -c %a /mnt/setid) = 6777 ] || echo "setid has mode $(stat -c %a /mnt/setid)"
allowed u3000 'echo more >> /mnt/setid'

# Quotas are the user's own, and what is removed counts no more, a second or so later at most.
refused "quota exceeded" u1000 'dd if=/dev/zero of=/mnt/blocks-1000 bs=64k count=48 conv=fsync'
allowed u2000 'dd if=/dev/zero of=/mnt/blocks-2000 bs=64k count=48 conv=fsync'
allowed u1000 'rm /mnt/blocks-1000
	for i in $(seq 25); do
		dd if=/dev/zero of=/mnt/blocks-1000 bs=64k count=16 conv=fsync && exit 0
		sleep 0.2
	done; exit 1'
refused "quota exceeded" u1000 'for i in $(seq 20); do : > /mnt/inode-$i || exit 1; done'
refused "quota exceeded" u1000 'mkdir /mnt/inode-dir'
allowed u2000 'for i in $(seq 20); do : > /mnt/inode-2000-$i || exit 1; done'

# The last quarter is for root.
refused "No space left" u2000 'dd if=/dev/zero of=/mnt/fill bs=64k count=400 conv=fsync'
allowed root 'dd if=/dev/zero of=/mnt/reserved bs=64k count=64 conv=fsync'
cd /; umount /mnt`

// afterwards runs on the server, once the client has unmounted; it prints only faults. User 1000
// then has the files "given" and "blocks-1000", and as many others as the quota allows.
const afterwards = `
cd /export
want() { [ "$2" = "$3" ] || echo "$1: $2, want $3"; }
want "mode of given" $(stat -c %a given) 660
want "mode of setid" $(stat -c %a setid) 777
want "mode of inherits/file" $(stat -c %a inherits/file) 660
want "mode of inherits/dir" $(stat -c %a inherits/dir) 770
want "owner of inherits/dir/file" $(stat -c %u:%g inherits/dir/file) 3000:3000
for f in inherits/file inherits/dir inherits/dir/file; do
	getfacl -nc $f 2> /dev/null | grep -q '^user:2000:rwx' || echo "the ACL of $f: $(getfacl -nc $f)"
done
getfacl -nc inherits/dir | grep -q '^default:user:2000:rwx' || echo "the default ACL of inherits/dir is gone"
shows own 'user::rw- group::--- group:2000:rw- mask::rw- other::---'
shows defaults 'user::rwx group::r-x other::r-x'
shows defaults/file 'user::rw- user:2000:rwx group::r-x mask::rw- other::---'
shows defaults/dir 'user::rwx user:2000:rwx group::r-x mask::rwx other::--- default:user::rwx default:user:2000:rwx default:group::r-x default:mask::rwx default:other::---'
shows defaults/later 'user::rw- group::r-- other::r--'
want "files of user 1000" $(find . -user 1000 | wc -l) 10
want "size of blocks-1000" $(stat -c %s blocks-1000) 1048576
want "size of blocks-2000" $(stat -c %s blocks-2000) 3145728
want "size of reserved" $(stat -c %s reserved) 4194304`

// volumeGuest boots a guest with such a volume and serves it to another over both transports, by
// our server or, as serveOrPeer does, by Linux's. The RDMA traffic is checked.
func volumeGuest(t *testing.T, series string, client *guest.Guest) *far {
	t.Helper()
	const rdma, tcp, mountd = 20049, 2049, 20048
	g, err := guest.Boot(t.Context(), guest.Config{Image: kernel(t, series), MemoryMB: 512, Isolated: true, Ports: []int{rdma, tcp, mountd}})
	if errors.Is(err, image.ErrUnavailable) {
		machine.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatalf("Boot: %v", err)
	}
	s := &guest.Server{Guest: g, RDMA: g.Address(rdma), TCP: g.Address(tcp), Mount: g.Address(tcp)}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.Run(context.Background(), "tail -n 50 /run/nfsrdmad.log")
			t.Logf("the serving guest's console:\n%s\nnfsrdmad said:\n%s", s.Console(), out)
		}
		s.Close()
	})
	run(t, s.Guest, makeVolume)
	if linuxServes() {
		run(t, s.Guest, "siw_up fixed && knfsd_up /export && dmesg -c > /dev/null")
		s.Mount = g.Address(mountd)
		return reach(t, s, client, &wire.Want{})
	}
	intoGuest(t, s.Guest, program(t, "cmd/nfsrdmad"))
	run(t, s.Guest, startServer)
	return reach(t, s, client, &wire.Want{ServerOurs: true})
}

// TestRightsOfUsers: users have the same rights as local processes have on the file system, no less
// and no more: ACLs, default ACLs, quotas for blocks and files, reserved blocks, set-id bits.
func TestRightsOfUsers(t *testing.T) {
	t.Parallel()
	for _, series := range []string{"6.1", "6.12"} {
		t.Run(series, func(t *testing.T) { rightsOfUsers(t, series) })
	}
}

func rightsOfUsers(t *testing.T, series string) {
	enter(t, series)
	if peerName() == "ganesha" {
		rightsAtGanesha(t, series)
		return
	}
	g := client(t, series)
	server := volumeGuest(t, series, g)
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			run(t, server.Guest, prepareVolume)
			said := run(t, g, server.mount(proto, "")+shows+asUsers) + run(t, server.Guest, shows+afterwards)
			for line := range strings.Lines(said) {
				t.Error(strings.TrimSpace(line))
			}
		})
	}
	if !linuxServes() {
		run(t, server.Guest, stopServer)
	}
	quiet(t, server.Guest)
	quiet(t, g)
}
