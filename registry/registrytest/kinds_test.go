package registrytest_test

import (
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/autoscaling"
	"github.com/keelson-dev/keelson/registry/batch"
	"github.com/keelson-dev/keelson/registry/certificates"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/flowcontrol"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/node"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/registrytest"
	"github.com/keelson-dev/keelson/registry/resource"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/registry/storage"
	"github.com/keelson-dev/keelson/registry/storagemigration"
)

func builtin() []registry.Kind {
	return slices.Concat(apps.Kinds(), autoscaling.Kinds(), batch.Kinds(), certificates.Kinds(nil), coordination.Kinds(), core.Kinds(core.Options{}), discovery.Kinds(),
		flowcontrol.Kinds(), networking.Kinds(), node.Kinds(), policy.Kinds(), rbac.Kinds(nil), resource.Kinds(resource.Options{}), scheduling.Kinds(), storage.Kinds(),
		storagemigration.Kinds())
}

func TestBuiltinKinds(t *testing.T) {
	registrytest.Kinds(t, builtin())
}

// TestDeletion pins whether a delete returns the object.
func TestDeletion(t *testing.T) {
	var got []string
	for _, k := range builtin() {
		if k.Rules.Deletion.ReturnsObject {
			got = append(got, k.Plural)
		}
	}
	if want := []string{"namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas", "serviceaccounts", "services", "deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices", "csidrivers", "csinodes", "storageclasses", "volumeattachments", "volumeattributesclasses"}; !slices.Equal(got, want) {
		t.Errorf("objects are returned by %v, want %v", got, want)
	}
}

// TestOrphans pins whose dependents are orphaned unless a delete asks for something else.
func TestOrphans(t *testing.T) {
	var got []string
	for _, k := range builtin() {
		if k.Rules.Deletion.Orphans {
			got = append(got, k.Plural)
		}
	}
	if want := []string{"jobs", "replicationcontrollers"}; !slices.Equal(got, want) {
		t.Errorf("dependents are orphaned of %v, want %v", got, want)
	}
}

// TestUpdates pins which kinds a PUT creates, and which it updates only with a version.
func TestUpdates(t *testing.T) {
	var creates, conditional []string
	for _, k := range builtin() {
		if k.Rules.CreateOnUpdate {
			creates = append(creates, k.Plural)
		}
		if k.Rules.ConditionalUpdate {
			conditional = append(conditional, k.Plural)
		}
	}
	slices.Sort(creates)
	if want := []string{"clusterrolebindings", "clusterroles", "endpoints", "events", "leases", "limitranges", "rolebindings", "roles", "runtimeclasses", "services"}; !slices.Equal(creates, want) {
		t.Errorf("created by update: %v, want %v", creates, want)
	}
	if want := []string{"clustertrustbundles", "podcertificaterequests", "leases", "runtimeclasses", "poddisruptionbudgets", "devicetaintrules", "csidrivers", "csinodes", "csistoragecapacities", "volumeattachments", "storageversionmigrations"}; !slices.Equal(conditional, want) {
		t.Errorf("updated with a version only: %v, want %v", conditional, want)
	}
}

// TestNames pins the names in discovery and storage.
func TestNames(t *testing.T) {
	want := map[string]string{
		"bindings":                 "",
		"componentstatuses":        "cs ",
		"configmaps":               "cm /configmaps",
		"endpoints":                "ep /services/endpoints",
		"events":                   "ev /events",
		"namespaces":               "ns /namespaces",
		"nodes":                    "no /minions",
		"pods":                     "po all /pods",
		"podtemplates":             "/podtemplates",
		"replicationcontrollers":   "rc all /controllers",
		"resourcequotas":           "quota /resourcequotas",
		"secrets":                  "/secrets",
		"serviceaccounts":          "sa /serviceaccounts",
		"services":                 "svc all /services/specs",
		"controllerrevisions":      "/controllerrevisions",
		"daemonsets":               "ds all /daemonsets",
		"deployments":              "deploy all /deployments",
		"replicasets":              "rs all /replicasets",
		"statefulsets":             "sts all /statefulsets",
		"cronjobs":                 "cj all /cronjobs",
		"jobs":                     "all /jobs",
		"endpointslices":           "/endpointslices",
		"leases":                   "/leases",
		"flowschemas":              "/flowschemas",
		"ingresses":                "ing /ingress",
		"ingressclasses":           "/ingressclasses",
		"networkpolicies":          "netpol /networkpolicies",
		"ipaddresses":              "ip /ipaddresses",
		"servicecidrs":             "/servicecidrs",
		"poddisruptionbudgets":     "pdb /poddisruptionbudgets",
		"priorityclasses":          "pc /priorityclasses",
		"csinodes":                 "/csinodes",
		"storageclasses":           "sc /storageclasses",
		"storageversionmigrations": "/storageversionmigrations",
		"roles":                    "/roles",
		"rolebindings":             "/rolebindings",
		"clusterroles":             "/clusterroles",
		"clusterrolebindings":      "/clusterrolebindings",

		"prioritylevelconfigurations": "/prioritylevelconfigurations",

		"horizontalpodautoscalers": "hpa all /horizontalpodautoscalers",

		"persistentvolumeclaims": "pvc /persistentvolumeclaims",
		"persistentvolumes":      "pv /persistentvolumes",

		"limitranges":             "limits /limitranges",
		"runtimeclasses":          "/runtimeclasses",
		"csidrivers":              "/csidrivers",
		"csistoragecapacities":    "/csistoragecapacities",
		"volumeattachments":       "/volumeattachments",
		"volumeattributesclasses": "vac /volumeattributesclasses",

		"certificatesigningrequests": "csr /certificatesigningrequests",
		"clustertrustbundles":        "/clustertrustbundles",
		"podcertificaterequests":     "/podcertificaterequests",

		"deviceclasses":          "/deviceclasses",
		"devicetaintrules":       "/devicetaintrules",
		"resourceclaims":         "/resourceclaims",
		"resourceclaimtemplates": "/resourceclaimtemplates",
		"resourceslices":         "/resourceslices",
	}
	for _, k := range builtin() {
		got := ""
		for _, s := range slices.Concat(k.Short, k.Categories) {
			got += s + " "
		}
		if k.Prefix != "" {
			got += "/" + k.Prefix
		}
		if expected, known := want[k.Plural]; !known || got != expected && k.Answer == nil {
			t.Errorf("%s is %q, want %q", k.Plural, got, expected)
		}
		delete(want, k.Plural)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
