// Real programs on a mount: version control, a compiler, a database, archives, synchronization, and
// a disk tester.

package mount

import (
	"path/filepath"
	"strings"
	"testing"
)

// A program is a real program's name, and a script that uses the program.
type program struct {
	name  string
	needs []string
	text  string
	full  string // additions with NFSRDMA_FULL
}

// run runs the script in an empty directory of a mount.
func (p program) run(t *testing.T, dir string) {
	t.Helper()
	need(t, p.needs...)
	text := p.text
	if full {
		text += p.full
	}
	if out, code := command(t, "", nil, "sh", "-euc", text, "sh", tempDir(t, "local"), dir); code != 0 {
		t.Errorf("status %d: %s", code, lastLines(out, 40))
	}
}

// scripts are the programs' work, each in an empty directory; $1 is one on a local disk.
var scripts = []program{
	{"git", []string{"git"}, `
export HOME=$1 GIT_CONFIG_NOSYSTEM=1
git init -q $1/src
cd $1/src
for i in $(seq 60); do mkdir -p d$((i % 7)); seq $i $((i * 30)) > d$((i % 7))/f$i; done
git add . && git -c user.name=n -c user.email=e commit -qm one
git mv d1 e1 && git -c user.name=n -c user.email=e commit -qm two
cd $2
git clone -q $1/src clone
cd clone
git fsck --full --strict
test -z "$(git status --porcelain)"
echo more >> d2/f2
git -c user.name=n -c user.email=e commit -qam three
git gc -q
git fsck --full
diff -r --exclude=.git $1/src . | grep -c f2`, ""},
	{"make", []string{"make"}, `
command -v gcc > /dev/null || export CC=gcc-12
export CC=${CC:-gcc}
cd $2
for i in $(seq 12); do printf '#include "all.h"\nint f%d(int x) { return x + %d; }\n' $i $i > f$i.c; done
for i in $(seq 12); do echo "int f$i(int);"; done > all.h
{ echo '#include "all.h"'; echo '#include <stdio.h>'; echo 'int main(void) { int x = 0;'; for i in $(seq 12); do echo "x = f$i(x);"; done; echo 'printf("%d", x); return 0; }'; } > main.c
printf 'OBJ=$(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(OBJ)\n\t$(CC) -o $@ $^\n%%.o: %%.c all.h\n\t$(CC) -c -o $@ $<\n' > Makefile
make -j4 > make.log 2>&1 || { echo "make: $?"; cat make.log; ls -l; exit 1; }
test "$(./prog)" = 78 || { ./prog; echo "prog: $?"; exit 1; }
make -j4 | grep -q 'up to date'
touch all.h && make -j4 | grep -c -e '-o ' | grep -q 14`, ""},
	{"sqlite", []string{"sqlite3"}, `
cd $2
sqlite3 db 'pragma journal_mode=delete; create table t(a integer primary key, b text, c blob); create index i on t(b);' > /dev/null
sqlite3 db "with recursive n(x) as (select 1 union all select x+1 from n where x<5000) insert into t select x, 'row ' || (x*7919%5000), randomblob(x%300) from n;"
for i in $(seq 8); do sqlite3 db "begin; update t set b='changed $i' where a%8=$i%8; delete from t where a%97=$i; commit;"; done
test "$(sqlite3 db 'pragma integrity_check')" = ok
cp db $1/db
test "$(sqlite3 $1/db 'pragma integrity_check')" = ok
test "$(sqlite3 db 'select count(*),sum(length(c)) from t')" = "$(sqlite3 $1/db 'select count(*),sum(length(c)) from t')"`, ""},
	{"tar", []string{"tar"}, `
mkdir $1/tree && cd $1/tree
for i in $(seq 150); do mkdir -p d$((i % 9))/e; seq $((i * 20)) > d$((i % 9))/e/f$i; done
ln -s d1 link; ln d1/e/f1 hard; mkfifo fifo; truncate -s 5M d2/sparse; echo end >> d2/sparse; chmod 4711 d1/e/f10; touch -d '2001-02-03 04:05:06.789' d1/e/f19
tar -cf $1/tree.tar .
cd $2
tar -xpf $1/tree.tar
diff -r --exclude=fifo $1/tree .
tar -df $1/tree.tar
tar -cf - . | tar -df -
rm -r $2/*`, ""},
	{"rsync", []string{"rsync", "setfattr"}, `
mkdir $1/tree && cd $1/tree
for i in $(seq 80); do mkdir -p d$((i % 5)); seq $((i * 40)) > d$((i % 5))/f$i; done
ln -s d1 link; ln d1/f1 hard; mkfifo fifo; chown 4242:4343 d2/f2
rsync -aHAX --checksum $1/tree/ $2/copy/
test -z "$(rsync -aHAX --checksum --itemize-changes $1/tree/ $2/copy/)"
echo change >> d3/f3; rm d4/f4
rsync -aHAX --checksum --delete $1/tree/ $2/copy/
test -z "$(rsync -aHAX --checksum --delete --itemize-changes $1/tree/ $2/copy/)"
mkdir $1/back && rsync -aHAX --inplace --checksum $2/copy/ $1/back/
diff -r --exclude=fifo $1/tree $1/back`, ""},
	{"fio", []string{"fio"}, `
cd $2
fio --name=v --filename=seq --rw=write --bs=1M --size=24M --verify=crc32c --do_verify=1 --end_fsync=1 --output=$1/seq.log
fio --name=v --filename=rand --rw=randwrite --bs=4k --size=4M --verify=sha1 --do_verify=1 --output=$1/rand.log
fio --name=v --filename=direct --rw=randwrite --bs=16k --size=8M --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --do_verify=1 --output=$1/direct.log
fio --name=v --filename=mm --rw=randrw --bs=4k --size=2M --ioengine=mmap --verify=md5 --output=$1/mm.log`, `
cd $2
fio --name=v --filename=big --rw=randwrite --bsrange=512-256k --bs_unaligned=1 --size=256M --verify=crc32c --do_verify=1 --output=$1/big.log`},
}

// TestPrograms: the programs find no fault, over each transport. With the race detector half of
// them run over one transport, and half over the other.
func TestPrograms(t *testing.T) {
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		for i, s := range scripts {
			if thin && (i%2 == 0) != strings.HasSuffix(t.Name(), "rdma") {
				continue
			}
			t.Run(s.name, func(t *testing.T) { s.run(t, inside(t, dir, s.name+"-"+filepath.Base(dir))) })
		}
	})
}

// TestNotInNFS3: operations on attributes and space that NFSv3 lacks fail with the errno of the
// kernel's client.
func TestNotInNFS3(t *testing.T) {
	need(t, "setfattr", "fallocate")
	onlyOne(t, func(t *testing.T, _ *server, dir string) {
		script(t, dir, "echo x > "+filepath.Base(dir))
		file := filepath.Join(dir, filepath.Base(dir))
		for name, args := range map[string][]string{
			"Operation not supported": {"setfattr", "-n", "user.x", "-v", "1", file},
			"unsupported":             {"fallocate", "-p", "-o", "0", "-l", "1", file},
		} {
			if out, code := command(t, "", nil, args[0], args[1:]...); code == 0 || !strings.Contains(out, name) {
				t.Errorf("%v: status %d, %s", args, code, out)
			}
		}
	})
}
