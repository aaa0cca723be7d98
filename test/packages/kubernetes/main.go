// Validates manifests against Kubernetes' types: unknown fields are errors.

// Command kubernetes decodes manifests with the types of k8s.io/api, rejects unknown fields, and
// writes each object as a line of JSON. It is a separate module, so that nothing else depends on
// those types.
package main

import (
	"bytes"
	"fmt"
	"os"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the supported objects, by apiVersion and kind.
var kinds = map[meta.TypeMeta]func() any{
	{APIVersion: "v1", Kind: "Namespace"}:                  func() any { return new(core.Namespace) },
	{APIVersion: "v1", Kind: "Secret"}:                     func() any { return new(core.Secret) },
	{APIVersion: "v1", Kind: "ConfigMap"}:                  func() any { return new(core.ConfigMap) },
	{APIVersion: "v1", Kind: "Service"}:                    func() any { return new(core.Service) },
	{APIVersion: "v1", Kind: "Pod"}:                        func() any { return new(core.Pod) },
	{APIVersion: "v1", Kind: "PersistentVolume"}:           func() any { return new(core.PersistentVolume) },
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"}:      func() any { return new(core.PersistentVolumeClaim) },
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:           func() any { return new(apps.StatefulSet) },
	{APIVersion: "apps/v1", Kind: "DaemonSet"}:             func() any { return new(apps.DaemonSet) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}: func() any { return new(policy.PodDisruptionBudget) },
}

func main() {
	for _, name := range os.Args[1:] {
		if err := decode(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

// decode writes the objects of a file.
func decode(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	for i, doc := range bytes.Split(text, []byte("\n---\n")) {
		var of meta.TypeMeta
		if err := yaml.Unmarshal(doc, &of); err != nil {
			return fmt.Errorf("document %d: %w", i+1, err)
		}
		object, ok := kinds[of]
		if !ok {
			return fmt.Errorf("document %d: no kind %q of %q is expected", i+1, of.Kind, of.APIVersion)
		}
		if err := yaml.UnmarshalStrict(doc, object()); err != nil {
			return fmt.Errorf("document %d, %s: %w", i+1, of.Kind, err)
		}
		line, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return err
		}
		fmt.Printf("%s\n", line)
	}
	return nil
}
