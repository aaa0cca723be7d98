// Files at another project's server: mounts inside its export, ACLs, a mount without a port, and a
// mount that its rules refuse. Answers are logged.

package linux

import (
	"fmt"
	"testing"
)

// mountsAtForeign runs TestMountsInExport's checks at another project's server. nfs-ganesha has no
// option for mounts in an export, and finds them only when it starts.
func mountsAtForeign(t *testing.T, series string) {
	f := startForeign(t, series)
	g := client(t, series)
	forwards(t, g.Device)
	mounted := func(name, content string) string {
		return fmt.Sprintf("cd %s && mount -t tmpfs -o size=4m,mode=777 none %s && echo %s > %[2]s/file\n", f.dir, name, content)
	}
	f.there(fmt.Sprintf("cd %s && mkdir -m 777 inner && echo under > inner/under", f.dir))
	f.kill()
	f.there(mounted("inner", "content") + "mkdir -m 777 inner/deep && echo under > inner/deep/under")
	f.again()
	ask := func(what, script string) {
		t.Helper()
		t.Logf("%s:\n%s", what, run(t, g, "exec 2>&1\n"+script+"\ntrue"))
	}
	const look = "ls -ln /mnt /mnt/inner /mnt/inner/deep; cat /mnt/inner/file; stat -c '%d %n' /mnt /mnt/inner /mnt/inner/deep; grep ' nfs ' /proc/mounts; df -k /mnt/inner | tail -n 1\n"
	for _, options := range map[string][]string{"knfsd": {"", ",crossmnt"}, "ganesha": {""}}[f.name] {
		if f.g != nil {
			f.there("echo '/export *(rw,sync,insecure,no_subtree_check,no_root_squash,fsid=0" + options + ")' > /etc/exports; exportfs -ra")
		}
		ask(options+" the mount", f.mount(g, "tcp")+",nolock 2> /dev/null || mount -t nfs -o nolock,vers=3,proto=tcp "+f.address(g)+":"+f.export+" /mnt\n"+look+
			"echo moved > /mnt/from && mv /mnt/from /mnt/inner/to && cat /mnt/inner/to; cd /mnt/inner && cd .. && ls")
		if options == "" && f.g != nil {
			ask("unmounting", unmount)
		}
	}
	for _, content := range []string{"first", "second"} {
		ask("of "+content+" the directory below it", "cat /mnt/inner/deep/under")
		f.there(mounted("inner/deep", content))
		ask("mounted while it is used", `for i in $(seq 25); do drop_caches; grep -qs `+content+` /mnt/inner/deep/file && break; sleep 0.2; done; echo "tries: $i"
`+look+`echo written > /mnt/inner/deep/of-guest; sync; cat /mnt/inner/deep/file`)
		t.Logf("there: %s", f.there(fmt.Sprintf("cd %s; ls inner/deep; umount inner/deep || { exportfs -f 2> /dev/null && umount inner/deep || umount -l inner/deep; }", f.dir)))
		ask("unmounted there", `for i in $(seq 25); do ls /mnt/inner/deep 2>&1 | grep -q -e Stale -e under && break; sleep 0.2; done; echo "tries: $i"; ls /mnt/inner/deep; cat /mnt/inner/deep/file
umount /mnt/inner/deep; for i in $(seq 25); do drop_caches; [ -e /mnt/inner/deep/under ] && break; sleep 0.2; done; echo "tries: $i"; ls /mnt/inner/deep`)
	}
	t.Logf("there: %s", f.there(fmt.Sprintf("cd %s; umount inner || { exportfs -f 2> /dev/null && umount inner || umount -l inner; }", f.dir)))
	ask("all unmounted there", "ls /mnt /mnt/inner; cat /mnt/inner/file; umount /mnt/inner; ls /mnt/inner; cd /; umount -f /mnt || umount -l /mnt; dmesg -c | grep -i -e nfs -e rpc; true")
}

// aclsAtServer sets ACLs on the server's machine, and aclsByClient uses and changes them in a
// mount. Both are about users 1000, 2000 and 3000.
const aclsAtServer = `
rm -rf given taken inherits ro/kept; echo content | tee given > taken; mkdir -p inherits
chown 1000:1000 given && chmod 600 given && setfacl -m u:2000:rw given
chmod 644 taken && setfacl -m u:1000:--- taken
chmod 777 inherits && setfacl -d -m u::rwx,u:2000:rwx,g::r-x,m::rwx,o::- inherits`

const aclsByClient = `
as() { user=$1; shift; su "$user" -c "$*" > /tmp/said 2>&1; echo "u$user: $*: status $? $(cat /tmp/said)"; }
shows() { echo "getfacl $1: $(echo $(getfacl -pncE "$1" 2>&1))"; }
shows /mnt/hello.txt; shows /mnt/given; shows /mnt/taken; shows /mnt/inherits
stat -c '%a %n' /mnt/given
as u2000 'cat /mnt/given'
as u2000 'echo more >> /mnt/given'
as u3000 'cat /mnt/given'
as u1000 'cat /mnt/taken'
as u2000 'cat /mnt/taken'
as u3000 'umask 0; echo content > /mnt/inherits/file && mkdir /mnt/inherits/dir && echo content > /mnt/inherits/dir/file'
shows /mnt/inherits/file
as u2000 'echo more >> /mnt/inherits/file'
as u1000 'cat /mnt/inherits/file'
as u3000 'umask 077; echo secret > /mnt/own && setfacl -m u:2000:r /mnt/own'
shows /mnt/own
as u2000 'setfacl -m u:1000:r /mnt/own'
as u2000 'cat /mnt/own'
as u1000 'chmod 600 /mnt/given'
shows /mnt/given
as u3000 'setfacl -b /mnt/own'
as u3000 'mkdir /mnt/defaults && setfacl -d -m u:2000:rwx,g::r-x,o::- /mnt/defaults'
shows /mnt/defaults
as u2000 'setfacl -d -m u:1000:rwx /mnt/defaults'
as u3000 'setfacl -m u:2000:rwx /mnt/defaults'
shows /mnt/defaults
as u3000 'umask 077; echo content > /mnt/defaults/file; mkdir /mnt/defaults/dir'
shows /mnt/defaults/file; shows /mnt/defaults/dir
as u3000 'setfacl -k /mnt/defaults'
shows /mnt/defaults
cd /; umount /mnt
`

// rightsAtGanesha makes the checks of ACLs in TestRightsOfUsers at nfs-ganesha.
func rightsAtGanesha(t *testing.T, series string) {
	f := startForeign(t, series)
	g := client(t, series)
	f.there("cd " + f.dir + aclsAtServer)
	t.Logf("%s", run(t, g, "exec 2>&1\nmount -t nfs -o vers=3,nolock,proto=tcp "+g.Host+":/export /mnt || exit 1"+aclsByClient+
		"mount -t nfs -o vers=3,nolock,proto=tcp "+g.Host+":/ro /mnt; setfacl -m u:2000:r /mnt/conf; mkdir /mnt/x; umount /mnt; dmesg -c | grep -i -e nfs -e rpc; true"))
	t.Logf("there:\n%s", f.there("cd "+f.dir+"; getfacl -nR . | grep -v '^$'"))
}

// withoutPorts mounts without a port, and tries the export of another client.
func withoutPorts(t *testing.T) {
	f := startForeign(t, "6.1")
	g := client(t, "6.1")
	forwards(t, g.Device)
	if f.g != nil {
		f.there("mkdir /other && echo '/other 192.0.2.7(rw,fsid=7)' >> /etc/exports && exportfs -ra")
	}
	mount := "mount -t nfs -o vers=3,nolock,proto=tcp " + f.address(g)
	t.Logf("%s", run(t, g, "exec 2>&1\n"+mount+":"+f.export+" /mnt; echo status $?; grep ' nfs ' /proc/mounts; echo text > /mnt/by-guest && cat /mnt/by-guest; ls /mnt; umount /mnt; "+
		mount+":/other /mnt; echo status $?; "+mount+":/none /mnt; echo status $?; showmount -e "+f.address(g)))
}
