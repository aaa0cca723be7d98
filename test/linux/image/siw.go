// Builds the soft-iWARP driver, which Debian's kernels lack.

package image

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// siwModules are two builds of the driver: unmodified, and with the race on the accepting side
// closed.
type siwModules struct{ stock, fixed string }

// raceFix is inserted after the call that passes an accepted socket to its queue pair. Bytes that
// arrived between the MPA reply and that call woke no thread, so a fast initiator's first FPDU
// could stay in the socket forever. The fix checks the socket once more.
const raceFix = `
		lock_sock(cep->sock->sk);
		local_bh_disable();
		if (!skb_queue_empty(&cep->sock->sk->sk_receive_queue))
			cep->sock->sk->sk_data_ready(cep->sock->sk);
		local_bh_enable();
		release_sock(cep->sock->sk);
`

// established matches the place for raceFix: the accepting side's up-call with its error exit.
var established = regexp.MustCompile(`siw_cm_upcall\(cep, IW_CM_EVENT_ESTABLISHED, 0\);\s*if \(rv\)\s*goto \w+;\n`)

func (b *builder) buildSiw(linux, source string) (m siwModules, err error) {
	headers := filepath.Join(linux, "usr/src/linux-headers-"+b.release)
	if err := relocate(linux, headers); err != nil {
		return m, err
	}
	src := filepath.Join(b.work, "siw")
	if err := b.extractSiw(source, src); err != nil {
		return m, err
	}
	if m.stock, err = b.makeSiw(headers, src, "siw-stock.ko"); err != nil {
		return m, err
	}
	cm := filepath.Join(src, "siw_cm.c")
	text, err := os.ReadFile(cm)
	if err != nil {
		return m, err
	}
	at := established.FindAllIndex(text, -1)
	if len(at) != 1 {
		return m, fmt.Errorf("the accepting side is found %d times in siw_cm.c of %s", len(at), b.release)
	}
	fixed := string(text[:at[0][1]]) + raceFix + string(text[at[0][1]:])
	if err := os.WriteFile(cm, []byte(fixed), 0o644); err != nil {
		return m, err
	}
	m.fixed, err = b.makeSiw(headers, src, "siw-fixed.ko")
	return m, err
}

// extractSiw extracts one directory from the tarball in the source package.
func (b *builder) extractSiw(source, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	inner := "linux-source-" + b.series
	script := `dpkg-deb --fsys-tarfile "$1" | tar -xO "./usr/src/$2.tar.xz" | xz -dc -T0 | tar -xC "$3" --strip-components=5 "$2/drivers/infiniband/sw/siw"`
	cmd := exec.CommandContext(b.ctx, "bash", "-ec", "set -o pipefail; "+script, "-", source, inner, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w: %s", filepath.Base(source), err, tail(string(out), 400))
	}
	return nil
}

func (b *builder) makeSiw(headers, src, name string) (string, error) {
	// The packages lack the kernel's type information.
	_, err := run(b.ctx, nil, "make", "-j2", "-C", headers, "M="+src, "CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES=", "modules")
	if err != nil {
		return "", err
	}
	out := filepath.Join(b.work, name)
	_, err = run(b.ctx, nil, "strip", "-g", "-o", out, filepath.Join(src, "siw.ko"))
	return out, err
}

var absolute = regexp.MustCompile(`(^|[^\w/])/usr/(src/linux-headers|lib/linux-kbuild)`)

// relocate changes the header packages' absolute paths to the directory where they were unpacked.
func relocate(root, headers string) error {
	for _, name := range []string{"Makefile", ".kernelvariables"} {
		path := filepath.Join(headers, name)
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		text = absolute.ReplaceAll(text, []byte("${1}"+root+"/usr/${2}"))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	links, err := filepath.Glob(filepath.Join(root, "usr/src/*/*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, "/usr/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return err
		}
		if err := os.Symlink(root+target, link); err != nil {
			return err
		}
	}
	return nil
}
