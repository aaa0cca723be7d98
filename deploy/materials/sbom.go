// A bill of materials in CycloneDX 1.6: one component for the program, and one per module.

package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// A bill is a bill of materials, with those CycloneDX fields that are in use.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Time       string     `json:"timestamp"`
	Component  component  `json:"component"`
	Properties []property `json:"properties,omitempty"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"` // application, library
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`

	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"` // in hexadecimal
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// recorded are the build settings needed to repeat a build.
var recorded = map[string]bool{"vcs.revision": true, "vcs.time": true, "vcs.modified": true, "-trimpath": true, "-ldflags": true, "-tags": true,
	"CGO_ENABLED": true, "GOOS": true, "GOARCH": true, "GOAMD64": true, "GOARM64": true}

// describe returns the bill of a program with its SHA-256 sum.
func describe(info *debug.BuildInfo, sum [sha256.Size]byte, at time.Time) *bill {
	b := &bill{Format: "CycloneDX", Spec: "1.6", Serial: serial(sum), Version: 1,
		Metadata:   metadata{Time: at.Format(time.RFC3339), Component: moduleComponent(&info.Main)},
		Components: []component{goComponent(info.GoVersion)}}
	c := &b.Metadata.Component
	c.Type, c.Name = "application", path.Base(info.Path)
	if below := strings.TrimPrefix(strings.TrimPrefix(info.Path, info.Main.Path), "/"); below != "" {
		c.PURL += "#" + below // the path of a package in the module
		c.Ref = c.PURL
	}
	c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum[:])}}
	for _, s := range info.Settings {
		if recorded[s.Key] {
			b.Metadata.Properties = append(b.Metadata.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	for _, m := range info.Deps {
		part := moduleComponent(used(m))
		if local(m) { // only the directory's name is known
			part.Properties = []property{{"go:replace", m.Replace.Path}}
		}
		b.Components = append(b.Components, part)
	}
	return b
}

// used returns the module that is in the program: m's replacement, or m.
func used(m *debug.Module) *debug.Module {
	switch {
	case m.Replace == nil:
		return m
	case local(m):
		// a directory has neither a version nor a sum
		return &debug.Module{Path: m.Path, Version: m.Version}
	}
	return m.Replace
}

// local reports whether a directory of this repository replaces a module.
func local(m *debug.Module) bool {
	return m.Replace != nil && strings.HasPrefix(m.Replace.Path, ".")
}

func moduleComponent(m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
	c := component{Ref: purl, Type: "library", Name: m.Path, Version: m.Version, PURL: purl}
	// go.sum's sum, version 1, is a SHA-256 of the module's list of files with their sums.
	if b64, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		if raw, err := base64.StdEncoding.DecodeString(b64); err == nil {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
		}
	}
	return c
}

// goComponent returns the standard library's component.
func goComponent(version string) component {
	purl := "pkg:golang/std@" + strings.TrimPrefix(version, "go")
	return component{Ref: purl, Type: "library", Name: "std", Version: version, PURL: purl}
}

// serial returns the program's UUID, equal for equal sums (RFC 9562 §5.8, version 8).
func serial(sum [sha256.Size]byte) string {
	u := sha256.Sum256(append([]byte("nfsrdma bill of materials "), sum[:]...))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

func fileSum(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	h.Sum(sum[:0])
	return sum, err
}
