// The manifests for Kubernetes: checked by its own types, and their names, ports, flags and options
// against our programs.

package packages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An object has the checked fields of all kinds.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	// StringData is of a Secret.
	StringData map[string]string
	Spec       struct {
		ServiceName          string
		ClusterIP            string
		Selector             json.RawMessage // of a Service labels, of others a selector
		Ports                []struct{ Port, TargetPort any }
		Template             struct{ Metadata, Spec json.RawMessage }
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
		VolumeName           string
		ClaimRef             struct{ Namespace, Name string }
		MountOptions         []string
		NFS                  struct{ Server, Path string }
	}
}

// A pod is the result of a template.
type pod struct {
	HostPID         bool
	SecurityContext struct {
		FSGroup             *int64
		FSGroupChangePolicy string
	}
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap struct{ Name string }
	}
}

type container struct {
	Image         string
	Command, Args []string
	Env           []struct {
		Name      string
		ValueFrom struct{ SecretKeyRef struct{ Name, Key string } }
	}
	Ports []struct {
		Name          string
		ContainerPort int
	}
	VolumeMounts   []struct{ Name, MountPath, MountPropagation string }
	ReadinessProbe struct{ Exec struct{ Command []string } }
	Lifecycle      struct {
		PreStop struct{ Exec struct{ Command []string } }
	}
}

// A cluster is all the manifests.
type cluster struct {
	t       *testing.T
	bin     string // directory of the programs
	objects map[string]object
}

func (c *cluster) get(kind, name string) object {
	c.t.Helper()
	o, ok := c.objects[kind+"/"+name]
	if !ok {
		c.t.Fatalf("there is no %s %s", kind, name)
	}
	return o
}

// pod returns the pod made by an object, with the pod's labels.
func (c *cluster) pod(o object) (p pod, labels map[string]string) {
	c.t.Helper()
	var meta struct{ Labels map[string]string }
	if err := json.Unmarshal(o.Spec.Template.Spec, &p); err != nil {
		c.t.Fatalf("json.Unmarshal: %v", err)
	}
	if err := json.Unmarshal(o.Spec.Template.Metadata, &meta); err != nil {
		c.t.Fatalf("json.Unmarshal: %v", err)
	}
	var selector struct{ MatchLabels map[string]string }
	if err := json.Unmarshal(o.Spec.Selector, &selector); err != nil || fmt.Sprint(selector.MatchLabels) != fmt.Sprint(meta.Labels) {
		c.t.Errorf("%s selects %v, its pods have %v (%v)", o.Metadata.Name, selector.MatchLabels, meta.Labels, err)
	}
	return p, meta.Labels
}

// manifests reads the Kubernetes files in deploy and compares them with the programs.
func manifests(t *testing.T, dir string) {
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	args := []string{"-C", "kubernetes", "run", "."}
	for _, file := range files {
		args = append(args, "../"+file)
	}
	c := &cluster{t, filepath.Join(dir, older, "bin"), map[string]object{}}
	for line := range strings.Lines(must(t, ".", "env", append([]string{"GOFLAGS=", "go"}, args...)...)) {
		var o object
		if !strings.HasPrefix(line, "{") {
			continue // go's messages about downloads
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		c.objects[o.Kind+"/"+o.Metadata.Name] = o
	}
	servers := c.servers()
	c.kernels(servers)
	c.nodes()
}

// servers checks the StatefulSet and its Services. It returns the volume's export name.
func (c *cluster) servers() (export string) {
	c.t.Helper()
	set := c.get("StatefulSet", "nfsrdmad")
	p, labels := c.pod(set)
	k := p.Containers[0]
	volumes := c.mounts(set, p, k)
	flags, rest := c.flags("nfsrdmad-juicefs", append([]string{"serve"}, k.Args...))
	if len(rest) != 1 || !strings.Contains(rest[0], "=/") {
		c.t.Fatalf("volumes %q", rest)
	}
	url, export, _ := strings.Cut(rest[0], "=")
	for _, e := range k.Env {
		if _, ok := c.get("Secret", e.ValueFrom.SecretKeyRef.Name).StringData[e.ValueFrom.SecretKeyRef.Key]; !ok {
			c.t.Errorf("%s is of no Secret", e.Name)
		}
	}
	if !slices.ContainsFunc(k.Env, func(e struct {
		Name      string
		ValueFrom struct{ SecretKeyRef struct{ Name, Key string } }
	}) bool {
		return url == "$("+e.Name+")"
	}) {
		c.t.Errorf("%s is no variable of the container", url)
	}
	for _, flag := range []string{"state-dir", "cache-dir", "control", "exports"} {
		if !slices.ContainsFunc(volumes, func(at string) bool { return flags[flag] == at || strings.HasPrefix(flags[flag], at+"/") }) {
			c.t.Errorf("--%s=%s is on no volume, and the root is read-only", flag, flags[flag])
		}
	}
	// The kubelet lets the group write to the top of a volume, and with another policy to
	// everything below. The server refuses a directory with a key to which others can write.
	if g := p.SecurityContext; g.FSGroup != nil && (slices.Contains(volumes, flags["state-dir"]) || g.FSGroupChangePolicy != "OnRootMismatch") {
		c.t.Errorf("--state-dir=%s can be written to by the group %d (%s)", flags["state-dir"], *g.FSGroup, g.FSGroupChangePolicy)
	}
	c.ports(k, flags, labels)
	if c.get("Service", set.Spec.ServiceName).Spec.ClusterIP != "None" {
		c.t.Errorf("%s is not headless", set.Spec.ServiceName)
	}
	c.exports(filepath.Base(flags["exports"]), export)
	c.probe(k.ReadinessProbe.Exec.Command)
	return export
}

// mounts checks that the mounts of a container exist, and returns their paths.
func (c *cluster) mounts(o object, p pod, k container) (paths []string) {
	c.t.Helper()
	known := map[string]bool{}
	for _, v := range p.Volumes {
		known[v.Name] = true
		if v.ConfigMap.Name != "" {
			c.get("ConfigMap", v.ConfigMap.Name)
		}
	}
	for _, v := range o.Spec.VolumeClaimTemplates {
		known[v.Metadata.Name] = true
	}
	for _, v := range k.VolumeMounts {
		if !known[v.Name] {
			c.t.Errorf("%s: there is no volume %s", o.Metadata.Name, v.Name)
		}
		delete(known, v.Name)
		paths = append(paths, v.MountPath)
	}
	if len(known) > 0 {
		c.t.Errorf("%s: volumes that nothing mounts: %v", o.Metadata.Name, known)
	}
	return paths
}

var longFlag = regexp.MustCompile(`(?m)^ +(?:-(\w), )?--([a-z-]+)(?: (\S+))?`)

// flags parses a program's arguments by the help text for its command; an unknown flag is an error.
func (c *cluster) flags(program string, args []string) (values map[string]string, rest []string) {
	c.t.Helper()
	help := must(c.t, "/", filepath.Join(c.bin, program), args[0], "--help")
	long, takes := map[string]string{}, map[string]bool{}
	for _, m := range longFlag.FindAllStringSubmatch(help, -1) {
		long["--"+m[2]], takes["--"+m[2]] = m[2], m[3] != ""
		if m[1] != "" {
			long["-"+m[1]], takes["-"+m[1]] = m[2], takes["--"+m[2]]
		}
	}
	values = map[string]string{}
	for args = args[1:]; len(args) > 0; args = args[1:] {
		name, value, given := strings.Cut(args[0], "=")
		switch {
		case !strings.HasPrefix(args[0], "-"):
			rest = append(rest, args[0])
			continue
		case long[name] == "":
			c.t.Errorf("%s has no flag %s", program, name)
		case !given && takes[name] && len(args) > 1:
			value, args = args[1], args[1:]
		}
		values[long[name]] = value
	}
	return values, rest
}

// defaultOf returns the default of a flag in a help text, which breaks its lines.
func defaultOf(help, flag string) string {
	m := regexp.MustCompile(`(?ms)^ {2,6}--` + flag + ` .*?\(default\s+"?([^")]*)`).FindStringSubmatch(help)
	if m == nil {
		return ""
	}
	return m[1]
}

// ports: the container has the ports that the program serves on, and the Services lead to them.
func (c *cluster) ports(k container, flags map[string]string, labels map[string]string) {
	c.t.Helper()
	help := must(c.t, "/", filepath.Join(c.bin, "nfsrdmad-juicefs"), "serve", "--help")
	numbers := map[string]int{}
	for _, p := range k.Ports {
		numbers[p.Name] = p.ContainerPort
	}
	for name, flag := range map[string]string{"nfs": "tcp-port", "nfs-rdma": "rdma-port"} {
		if flags[flag] != "" || defaultOf(help, flag) != fmt.Sprint(numbers[name]) {
			c.t.Errorf("port %d is not that of --%s", numbers[name], flag)
		}
	}
	if !strings.HasSuffix(flags["metrics-addr"], fmt.Sprint(":", numbers["figures"])) {
		c.t.Errorf("figures are at %s, and the port is %d", flags["metrics-addr"], numbers["figures"])
	}
	for _, name := range []string{"nfsrdmad", "nfs"} {
		s := c.get("Service", name)
		var selector map[string]string
		if err := json.Unmarshal(s.Spec.Selector, &selector); err != nil || fmt.Sprint(selector) != fmt.Sprint(labels) {
			c.t.Errorf("Service %s selects %v, the servers have %v", name, selector, labels)
		}
		if len(s.Spec.Ports) != 2 {
			c.t.Errorf("Service %s has %d ports", name, len(s.Spec.Ports))
		}
		for _, p := range s.Spec.Ports {
			if fmt.Sprint(numbers[fmt.Sprint(p.TargetPort)]) != fmt.Sprint(p.Port) {
				c.t.Errorf("Service %s: port %v leads to %v", name, p.Port, p.TargetPort)
			}
		}
	}
}

// exports: the server accepts the file, and its export is on the volume.
func (c *cluster) exports(file, export string) {
	c.t.Helper()
	text, ok := c.get("ConfigMap", "exports").Data[file]
	if !ok || !strings.HasPrefix(text, export+" ") {
		c.t.Errorf("the exports file has %q, the volume is %s", text, export)
	}
}

// probe: the command is one of the client's, with its flags, at the port of the server.
func (c *cluster) probe(command []string) {
	c.t.Helper()
	if len(command) < 3 || filepath.Base(command[0]) != "nfsrdma" {
		c.t.Fatalf("%q", command)
	}
	c.flags("nfsrdma", command[1:])
	image, err := os.ReadFile("../../deploy/Containerfile.juicefs")
	if err != nil || !bytes.Contains(image, []byte("/out/nfsrdma ")) || !bytes.Contains(image, []byte(" "+filepath.Dir(command[0])+"/\n")) {
		c.t.Errorf("the image does not have %s: %v", command[0], err)
	}
}

// kernels checks the PersistentVolume that kernels mount.
func (c *cluster) kernels(export string) {
	c.t.Helper()
	pv, claim, service := c.get("PersistentVolume", "nfsrdma"), c.get("PersistentVolumeClaim", "shared"), c.get("Service", "nfs")
	if pv.Spec.NFS.Server != service.Spec.ClusterIP || pv.Spec.NFS.Path != export {
		c.t.Errorf("%+v is not mounted from %s:%s", pv.Spec.NFS, service.Spec.ClusterIP, export)
	}
	if claim.Spec.VolumeName != pv.Metadata.Name || pv.Spec.ClaimRef.Name != claim.Metadata.Name || pv.Spec.ClaimRef.Namespace != claim.Metadata.Namespace {
		c.t.Errorf("the claim is for %s, the volume for %+v", claim.Spec.VolumeName, pv.Spec.ClaimRef)
	}
	port := fmt.Sprint(service.Spec.Ports[0].Port)
	for _, want := range []string{"vers=3", "proto=tcp", "port=" + port, "mountport=" + port, "mountproto=tcp", "nolock"} {
		if !slices.Contains(pv.Spec.MountOptions, want) {
			c.t.Errorf("mount options %q lack %s", pv.Spec.MountOptions, want)
		}
	}
}

// nodes checks the mounts that pods make on nodes.
func (c *cluster) nodes() {
	c.t.Helper()
	set := c.get("DaemonSet", "mount")
	p, _ := c.pod(set)
	k := p.Containers[0]
	c.mounts(set, p, k)
	if !p.HostPID {
		c.t.Error("the mount does not see the processes of pods, and so not their groups")
	}
	if k.Image != c.image() || filepath.Base(k.Command[0]) != "nfsrdma" {
		c.t.Errorf("%s of %s", k.Command, k.Image)
	}
	flags, rest := c.flags("nfsrdma", k.Args)
	if _, ok := flags["foreground"]; !ok || len(rest) != 2 {
		c.t.Fatalf("%q: %q", k.Args, rest)
	}
	host, path, _ := strings.Cut(rest[0], ":")
	for at := range strings.SplitSeq(host, ",") {
		words := strings.Split(strings.TrimSuffix(at, ".svc.cluster.local"), ".")
		if s := c.get("Service", words[len(words)-2]); s.Metadata.Namespace != words[len(words)-1] || path != c.get("PersistentVolume", "nfsrdma").Spec.NFS.Path {
			c.t.Errorf("%s is not the volume of a Service", rest[0])
		}
	}
	help := must(c.t, "/", filepath.Join(c.bin, "nfsrdma"), "mount", "--help")
	for option := range strings.SplitSeq(flags["options"], ",") {
		name, _, _ := strings.Cut(option, "=")
		if !regexp.MustCompile(`(?m)\b` + name + `\b`).MatchString(help) {
			c.t.Errorf("nfsrdma mount knows no option %s", name)
		}
	}
	for _, command := range [][]string{k.Lifecycle.PreStop.Exec.Command, k.ReadinessProbe.Exec.Command} {
		if _, at := c.flags("nfsrdma", command[1:]); !slices.Equal(at, rest[1:]) {
			c.t.Errorf("%q is not of the mount on %s", command, rest[1])
		}
	}
	if !slices.ContainsFunc(k.VolumeMounts, func(v struct{ Name, MountPath, MountPropagation string }) bool {
		return v.MountPropagation == "Bidirectional" && strings.HasPrefix(rest[1], v.MountPath+"/")
	}) {
		c.t.Errorf("%s is not seen outside of the pod", rest[1])
	}
}

func (c *cluster) image() string {
	p, _ := c.pod(c.get("StatefulSet", "nfsrdmad"))
	return p.Containers[0].Image
}
