// A user's operations on a file tree, for any mount.

package guest

// TreeScript copies a tree into the mount at /mnt and out again, archives it, runs programs from
// it, removes it, and unmounts.
const TreeScript = `
set -e
# Busybox keeps the times of files, not those of directories and links.
trap 'cd /; umount /mnt' EXIT
before=$(ls /mnt)
rm -rf /tmp/tree /tmp/back && mkdir -p /tmp/tree && cd /tmp/tree
for d in cmd/a cmd/b internal/x/y/z docs empty; do mkdir -p $d; done
for i in $(seq 60); do
	head -c $((i * 397)) /dev/urandom > internal/x/f$i.c
	echo "line $i" > docs/page-$i.md
done
ln -s ../docs/page-1.md cmd/link
ln docs/page-2.md docs/hard
chmod 750 internal/x && chmod 4755 docs/page-3.md
mkfifo cmd/fifo
cp -a /tmp/tree /mnt/tree
drop_caches
cp -a /mnt/tree /tmp/back
list() { (cd "$1" && find . | sort | while read -r f; do stat -c '%n %a %u:%g %F' "$f"; if [ -L "$f" ]; then readlink "$f"; elif [ -f "$f" ]; then stat -c %Y "$f"; md5sum "$f"; fi; done); }
list /tmp/tree > /tmp/l1; list /tmp/back > /tmp/l2; list /mnt/tree > /tmp/l3
cmp /tmp/l1 /tmp/l2 || { diff /tmp/l1 /tmp/l2 | head; exit 1; }
cmp /tmp/l1 /tmp/l3 || { diff /tmp/l1 /tmp/l3 | head; exit 1; }
tar -C /mnt -cf /mnt/t.tar tree
mkdir /mnt/untar && tar -C /mnt/untar -xf /mnt/t.tar
list /mnt/untar/tree > /tmp/l4
cmp /tmp/l1 /tmp/l4 || { diff /tmp/l1 /tmp/l4 | head; exit 1; }
# A build: each target is made by a program that itself lives on the mount.
mkdir /mnt/build && cp /bin/busybox /mnt/build/busybox && cd /mnt/build
cat > build.sh <<'S'
#!/bin/sh
set -e
bb=./busybox
for f in ../tree/internal/x/*.c; do
	o=$($bb basename "$f" .c).o
	$bb md5sum < "$f" > "$o.tmp"
	$bb mv "$o.tmp" "$o"
done
$bb cat *.o | $bb sort > all
$bb wc -l < all
S
chmod 755 build.sh
[ "$(./build.sh)" = 60 ]
cd /mnt
rm -r tree untar build t.tar
[ "$(ls /mnt)" = "$before" ] || { ls -la /mnt; exit 1; }
cd /
rm -rf /tmp/tree /tmp/back /tmp/l?
`
