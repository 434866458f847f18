package depcheck_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/keelson-dev/keelson"

// everything marks packages that assemble the parts and may import all of them.
const everything = "*"

// anyone lists packages that every package may import.
func anyone() []string { return []string{"internal/atomicfile", "internal/boundedquantity"} }

// siblings lists, for each path, which packages of other top-level packages the packages below it may import outside
// tests. They are contract roots; exceptions give their reason.
func siblings() map[string][]string {
	return map[string][]string{
		"admission": {"authn", "authz", "authz/signer", "internal/apireference", "internal/quota", "internal/signingrequest",
			"podspec/features", "podspec/qos", // what pods need, and how they are ranked
		},
		"admission/imagepolicywebhook/remote": {"authn", "internal/jsonpost"},
		"admission/internal/expressions":      {"authn", "authz", "authz/selector"}, // expressions may ask who may do what
		"admission/policy":                    {"authn", "internal/jsonpatch"},
		"admission/policy/cel":                {"authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/webhook":                   {"authn", "internal/jsonpatch"},
		"admission/webhook/cel":               {"authn", "authz", "authz/selector", "internal/jsonpatch"},
		"apiserver": {"admission", "admission/status", "authn", "authz", "informer", "registry",
			"flowcontrol", "flowcontrol/fairqueuing", // the default is upstream's
			"authz/selector",                      // selectors in requests to authorizers: part of the contract
			"registry/codec",                      // the encodings in which the registry stores and returns objects
			"registry/request", "registry/status", // the meaning of requests, and the answers to clients
			"internal/boundedcbor", "internal/boundedyaml", "internal/upgrade",
		},
		"authn":                       {},
		"authn/bootstraptoken":        {"internal/bootstraptoken"},
		"authn/webhook/remote":        {"internal/jsonpost"},
		"authz/webhook/remote":        {"authn", "internal/jsonpost"},
		"authz":                       {"authn", "client"},
		"bench":                       {everything},
		"client":                      {"internal/restclient", "internal/boundedyaml"},
		"cluster":                     {everything},
		"cni":                         {},
		"component":                   {"authn", "client", "controllers", "events", "events/publish", "informer", "lifecycle"},
		"component/controllermanager": {everything}, // all controllers
		"component/remote":            {"authn", "client", "client/rest", "component", "controllers/leaderelection", "events/publish", "informer", "informer/wire", "lifecycle"},
		"component/kubescheduler":     {"authn", "component", "events", "informer", "lifecycle", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/plugins", "scheduler/volumes"},
		"conformance":                 {everything},
		"controllers": {"client", "events", "informer", "lifecycle", "internal/pause", "internal/quota", "podspec/restart",
			"internal/cronschedule", // of CronJobs
			"internal/signingrequest", "internal/bootstraptoken",
			"authz/rbac", // clusterroleaggregation merges rules as the evaluator reads them
		},
		"controllers/statefulset":     {"client", "events", "informer", "lifecycle", "podspec"}, // defaults of stored revisions
		"controllers/controllerstest": {"client", "client/faults", "events", "informer", "informer/lag", "lifecycle", "registry", "registry/", "storage/memory"},
		"cri":                         {},
		"cri/simulated":               {"internal/inmemory"}, // connections to ports of pods
		"dns":                         {"informer", "lifecycle"},
		"envtest":                     {everything}, // a whole control plane
		"events":                      {"client"},
		"examples":                    {everything},
		"flowcontrol":                 {"authn", "authz", "informer"},
		"informer":                    {"internal/restclient"},
		"internal": {"client", "events", "informer", "lifecycle", // test kits
			"client/generate",                                                               // kubectlargs reads its options
			"pki",                                                                           // etcdtest's certificates
			"node/filelock",                                                                 // etcdtest builds once
			"client/kubeconfig",                                                             // clusterprocess is a client
			"apiserver", "authz/alwaysallow", "registry", "registry/core", "storage/memory", // testserver runs the real thing
		},
		"internal/nettest":               {"cni/netns", "node/nodetools"}, // networks for tests, with the plugins of nodes
		"internal/demo":                  {everything},                    // plays with a whole cluster
		"internal/testcluster":           {everything},                    // serves one
		"internal/upstream/controlplane": {everything},                    // runs a cluster of other programs
		"kubelet": {"authn", "authz", "client", "cri", "events", "informer", "lifecycle", "internal/apireference", "internal/boundedyaml", "internal/pause", "internal/upgrade",
			"podspec/critical", "podspec/features", "podspec/origin", "podspec/qos", "podspec/restart"},
		"lifecycle":          {},
		"node":               {"authn", "authz", "client", "events", "informer", "kubelet/objects"},
		"node/bundled":       {"cni/bridge", "cni/bridge/announce", "cri", "cri/remote", "internal/pause", "kubelet", "kubelet/eviction", "kubelet/garbage", "kubelet/security", "lifecycle"},
		"node/certificates":  {"client"},
		"node/containerd":    {"node/filelock", "internal/pause"},
		"node/filelock":      {"internal/pause"},
		"node/host":          {"client", "cri", "informer", "kubelet", "kubelet/", "lifecycle", "podspec", "podspec/origin"},
		"node/internal":      {everything}, // a test kit, with a cluster
		"node/kubeletconfig": {"kubelet/eviction", "kubelet/garbage", "kubelet/pinning", "kubelet/pinning/", "node/host", "internal/configfile"},
		"node/localvolumes":  {"kubelet/volume"}, // whose removal of directories stops at mounts
		"node/nodetools":     {},
		"node/ociimage":      {},
		"node/remote":        {"authn/token", "authn/webhook", "authz/webhook", "client", "client/rest", "events/publish", "informer", "informer/wire", "kubelet/objects", "lifecycle"},
		"networkpolicy":      {"informer", "internal/nfnetlink", "internal/nft"}, // the kernel's language
		"overlay":            {"informer", "lifecycle"},
		"pki":                {},
		"podspec":            {},
		"proxy":              {"informer", "internal/nfnetlink"},
		"proxy/healthcheck":  {"events"}, // of ports that cannot be opened
		"registry": {"authn", "authz", "informer", "podspec", "podspec/", "storage",
			"authz/selector",                          // the review kinds read selectors as requests carry them
			"authz/signer", "internal/signingrequest", // who may sign which requests for certificates
			"flowcontrol", // the objects that every API server keeps
		},
		"registry/batch":            {"podspec", "internal/cronschedule"}, // messages about schedules
		"registry/custom":           {"internal/boundedyaml"},             // definitions in files
		"registry/direct":           {"authn", "client"},
		"registry/request":          {"authz/selector", "internal/jsonpatch", "internal/strategicpatch"},
		"scheduler":                 {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart"},
		"scheduler/schedulerconfig": {"internal/configfile"},
		"scheduler/whatif/load":     {"client", "client/manifest", "informer", "informer/memory"}, // objects of a server, or in files
		"storage":                   {"internal/pause", "internal/boundedyaml"},
		"tracing":                   {"internal/configfile"},
	}
}

// behind lists, for packages that are imported alone or that others build on, which packages of this module may be in
// their import closures.
func behind() map[string][]string {
	kind := []string{"informer", "registry", "registry/codec", "registry/internal/check", "registry/internal/ordered", "storage"}
	return map[string][]string{
		"admission":                                      {"authn"},
		"admission/alwaysadmit":                          {"admission", "authn"},
		"admission/alwaysdeny":                           {"admission", "authn"},
		"admission/alwayspullimages":                     {"admission", "admission/internal/pods", "authn"},
		"admission/denyserviceexternalips":               {"admission", "authn"},
		"admission/eventratelimit":                       {"admission", "authn"},
		"admission/extendedresourcetoleration":           {"admission", "authn"},
		"admission/initializers":                         {"admission", "authn", "authz"},
		"admission/internal/pods":                        {"admission", "authn"},
		"admission/limitpodhardantiaffinitytopology":     {"admission", "admission/internal/pods", "authn"},
		"admission/namespaceautoprovision":               {"admission", "authn"},
		"admission/namespaceexists":                      {"admission", "authn"},
		"admission/nodedeclaredfeaturevalidator":         {"admission", "admission/internal/pods", "authn", "podspec/features", "podspec/restart"},
		"admission/ownerreferencespermissionenforcement": {"admission", "authn", "authz"},
		"admission/podnodeselector":                      {"admission", "admission/internal/pods", "authn"},
		"admission/podresizevalidator":                   {"admission", "admission/internal/pods", "authn"},
		"admission/podtolerationrestriction":             {"admission", "admission/internal/pods", "authn", "podspec/qos"},
		"admission/podtopologylabels":                    {"admission", "authn"},
		"admission/defaultingressclass":                  {"admission", "authn"},
		"admission/defaultstorageclass":                  {"admission", "authn"},
		"admission/defaulttolerationseconds":             {"admission", "authn"},
		"admission/imagepolicywebhook":                   {"admission", "authn"},
		"admission/imagepolicywebhook/remote":            {"admission", "admission/imagepolicywebhook", "authn", "internal/jsonpost"},
		"admission/limitranger":                          {"admission", "authn"},
		"admission/namespacelifecycle":                   {"admission", "authn"},
		"admission/noderestriction":                      {"admission", "authn", "authz", "internal/apireference", "internal/signingrequest"},
		"admission/podsecurity":                          {"admission", "authn"},
		"admission/priority":                             {"admission", "authn"},
		"admission/runtimeclass":                         {"admission", "authn"},
		"admission/serviceaccount":                       {"admission", "authn"},
		"admission/taintnodesbycondition":                {"admission", "authn"},
		"admission/internal/expressions":                 {"authn", "authz", "authz/selector"},
		"admission/internal/matching":                    {"admission", "authn"},
		"admission/policy":                               {"admission", "admission/internal/matching", "authn", "internal/jsonpatch"},
		"admission/policy/typecheck":                     {},
		"admission/policy/cel":                           {"admission", "admission/internal/expressions", "admission/internal/matching", "admission/policy", "authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/webhook":                              {"admission", "admission/internal/matching", "authn", "internal/jsonpatch"},
		"admission/webhook/cel":                          {"admission", "admission/internal/expressions", "admission/internal/matching", "admission/webhook", "authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/status":                               {"admission", "authn"},
		"admission/webhook/handler":                      {"admission", "admission/internal/matching", "admission/status", "admission/webhook", "authn", "internal/jsonpatch"},
		"admission/webhook/inprocess":                    {"admission", "admission/internal/matching", "admission/webhook", "admission/webhook/internal/post", "authn", "internal/jsonpatch"},
		"admission/webhook/internal/post":                {},
		"admission/webhook/remote":                       {"admission", "admission/internal/matching", "admission/webhook", "admission/webhook/internal/post", "authn", "internal/jsonpatch"},
		"authn":                                          {},
		"authn/authntest":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/basic":                                    {"authn", "authn/internal/watched", "authn/token"},
		"authn/inprocess":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/webhook/remote":                           {"authn", "authn/token", "authn/webhook", "internal/jsonpost"},
		"authz/webhook/cel":                              {"authn", "authz", "authz/webhook"},
		"authz/webhook/remote":                           {"authn", "authz", "authz/webhook", "internal/jsonpost"},
		"authn/oidc":                                     {"authn", "authn/token"},
		"authn/oidc/cel":                                 {"authn", "authn/oidc", "authn/token"},
		"authn/requestheader":                            {"authn", "authn/internal/watched", "authn/x509"},
		"authn/serviceaccount":                           {"authn"},
		"authn/token":                                    {"authn", "authn/internal/watched", "authn/token"},
		"authn/tokenfile":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/x509":                                     {"authn", "authn/internal/watched", "authn/token"},
		"authz":                                          {"authn"},
		"authz/abac":                                     {"authn", "authz"},
		"authz/alwaysallow":                              {"authn", "authz"},
		"authz/alwaysdeny":                               {"authn", "authz"},
		"authz/authztest":                                {"authn", "authz"},
		"authz/node":                                     {"authn", "authz"},
		"authz/rbac":                                     {"authn", "authz"},
		"authz/rbac/bootstrap":                           {"authn", "authz", "authz/rbac", "client"},
		"authz/selector":                                 {"authn", "authz"},
		"authz/signer":                                   {"authn", "authz"},
		"authz/superuser":                                {"authn", "authz"},
		"client":                                         {},
		"client/discovery":                               {"client"},
		"client/faults":                                  {"client"},
		"client/generate":                                {},
		"client/kubeconfig":                              {"internal/boundedyaml"},
		"client/manifest":                                {"internal/boundedyaml"},
		"client/printer":                                 {"internal/boundedyaml"},
		"client/rest":                                    {"client", "internal/restclient"},
		"controllers":                                    {"lifecycle"},
		"controllers/cronjob":                            {"client", "controllers", "controllers/ownership", "events", "informer", "internal/cronschedule", "lifecycle"},
		"controllers/daemonset":                          {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/revisions", "events", "informer", "lifecycle"},
		"controllers/deployment":                         {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle"},
		"controllers/endpoints":                          {"client", "controllers", "controllers/internal/backends", "controllers/expectations", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/endpointslice":                      {"client", "controllers", "controllers/internal/backends", "controllers/internal/endpointslices", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/endpointslicemirroring":             {"client", "controllers", "controllers/internal/backends", "controllers/internal/endpointslices", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/loadbalancer":                       {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/nodeipam":                           {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/servicecidrs":                       {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/job":                                {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/leaderelection":                     {"client", "controllers", "events", "internal/pause", "lifecycle"},
		"controllers/reconciler":                         {"controllers", "lifecycle"},
		"controllers/replicaset":                         {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "controllers/internal/replicas", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/replicationcontroller":              {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "controllers/internal/replicas", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/storageversionmigrator":             {"client", "controllers", "informer", "lifecycle"},
		"cri/runtimetest":                                {"cri"},
		"cri/simulated":                                  {"cri", "internal/inmemory"},
		"cri/streams":                                    {"cri"},
		"events":                                         {},
		"dns":                                            {"informer"},
		"dns/server":                                     {"dns", "informer", "lifecycle"},
		"events/publish":                                 {"client", "events"},
		"informer":                                       {},
		"informer/clientgo":                              {"informer"},
		"informer/clientgo/factory":                      {"informer", "informer/clientgo"},
		"informer/controllerruntime":                     {"informer", "informer/clientgo"},
		"informer/lag":                                   {"informer"},
		"informer/memory":                                {"informer"},
		"informer/wire":                                  {"informer", "internal/restclient"},
		"internal/atomicfile":                            {},
		"kubelet":                                        {"client", "cri", "events", "informer", "internal/pause", "kubelet/decision", "kubelet/environment/expansion", "kubelet/security", "lifecycle", "podspec/features", "podspec/origin", "podspec/qos", "podspec/restart"},
		"kubelet/decision":                               {"cri", "podspec/qos", "podspec/restart"},
		"lifecycle":                                      {},
		"pki":                                            {},
		"registry/admissionregistration":                 kind,
		"registry/admissionregistration/v1alpha1":        kind,
		"registry/apiextensions":                         kind,
		"registry/allocation":                            {"informer", "registry", "registry/codec", "registry/internal/ordered", "storage"},
		"registry/apiregistration":                       kind,
		"registry/autoscaling":                           append(kind, "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/certificates":                          append(kind, "authn", "authz", "authz/signer", "internal/signingrequest", "podspec/signername"),
		"registry/codec":                                 {},
		"registry/coordination":                          kind,
		"podspec":                                        {"podspec/qos", "podspec/restart", "podspec/signername"},
		"podspec/critical":                               {"podspec/origin"},
		"podspec/features":                               {"podspec/restart"},
		"podspec/origin":                                 {},
		"podspec/qos":                                    {},
		"podspec/restart":                                {},
		"podspec/signername":                             {},
		"registry/custom":                                append(kind, "registry/apiextensions", "internal/boundedyaml"),
		"registry/discovery":                             kind,
		"flowcontrol":                                    {"authn", "authz"},
		"flowcontrol/fairqueuing":                        {"authn", "authz", "flowcontrol", "informer"},
		"flowcontrol/metrics":                            {"authn", "authz", "flowcontrol", "flowcontrol/fairqueuing", "informer"},
		"registry/flowcontrol":                           append(kind, "authn", "authz", "flowcontrol", "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/flowcontrol/upkeep":                    append(kind, "authn", "authz", "flowcontrol", "podspec", "podspec/qos", "podspec/restart", "podspec/signername", "registry/flowcontrol"),
		"registry/internal/check":                        {},
		"registry/kubernetesservice":                     {"informer", "registry", "registry/allocation", "registry/codec", "registry/internal/check", "registry/internal/ordered", "registry/networking", "storage"},
		"registry/networking":                            kind,
		"registry/policy":                                kind,
		"registry/rbac":                                  kind,
		"registry/scheduling":                            append(kind, "podspec/critical", "podspec/origin"),
		"registry/resource":                              append(kind, "authn", "authz", "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/resource/selectors":                    {},
		"registry/storage":                               append(kind, "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/storagemigration":                      kind,
		"scheduler":                                      {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/budgets":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/groups":                               {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/plugins":                              {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/decisions":                            {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/extender":                             {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/queue":                                {},
		"scheduler/schedulerconfig":                      {"client", "events", "informer", "internal/boundedyaml", "internal/configfile", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/extender", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/signature":                            {},
		"scheduler/devices":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/volumes":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/whatif":                               {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/whatif/load":                          {"client", "client/manifest", "events", "informer", "informer/memory", "internal/boundedyaml", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/schedulertest":                        {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"storage":                                        {},
		"storage/internal/bulk":                          {"storage"},
		"storage/memory":                                 {"storage", "storage/internal/timeline"},
		"storage/snapshot":                               {"storage", "storage/internal/bulk"},
		"storage/storagetest":                            {"storage"},
		"storage/transfer":                               {"storage", "storage/internal/bulk"},
		"storage/wal":                                    {"storage", "storage/internal/disk", "storage/internal/timeline"},

		// Certificates.
		"authn/bootstraptoken":                    {"authn", "authn/internal/watched", "authn/token", "internal/bootstraptoken"},
		"admission/certificateapproval":           {"admission", "authn", "authz", "authz/signer"},
		"admission/certificatesigning":            {"admission", "authn", "authz", "authz/signer"},
		"admission/certificatesubjectrestriction": {"admission", "authn", "internal/signingrequest"},
		"admission/clustertrustbundleattest":      {"admission", "authn", "authz", "authz/signer"},
		"controllers/csrapproving":                {"client", "controllers", "controllers/internal/csr", "informer", "internal/signingrequest", "lifecycle"},
		"controllers/csrsigning":                  {"client", "controllers", "controllers/internal/csr", "informer", "internal/signingrequest", "lifecycle"},

		"admission/persistentvolumeclaimresize":  {"admission", "authn"},
		"admission/storageobjectinuseprotection": {"admission", "authn"},
	}
}

// limits bounds the number of packages outside the standard library and this module in a package's import closure: the
// row of the package itself, or of the nearest path above it. They are slightly above current needs.
func limits() map[string]int {
	return map[string]int{
		"admission":                           90,
		"admission/admissiontest":             160, // go-cmp and YAML
		"admission/imagepolicywebhook/remote": 110, // client-go's TLS and credentials
		"admission/podsecurity":               95,  // upstream's checks, without the clients and metrics of its server
		"apiserver":                           171,
		"apiserver/aggregator":                172,
		"apiserver/audit":                     90,
		"apiserver/audit/webhook":             160, // client-go's REST client
		"apiserver/connect":                   180, // WebSocket and SPDY
		"apiserver/cors":                      0,
		"apiserver/health":                    0,
		"apiserver/managedfields":             80,
		"apiserver/metrics":                   200, // Prometheus' client
		"authn":                               0,
		"authn/bootstraptoken":                70,  // API types
		"authn/oidc":                          60,  // validation's field errors and go-jose
		"authn/oidc/cel":                      240, // CEL
		"authn/serviceaccount":                75,  // API types and go-jose
		"authn/webhook":                       70,  // API types
		"authz":                               0,
		"authz/node":                          90,
		"authz/rbac":                          90,
		"authz/selector":                      30,
		"authz/webhook":                       70,
		"bench":                               520, // peers has nodes, too
		"client":                              80,
		"client/discovery":                    255, // client-go's discovery knows all kinds of the API
		"client/generate":                     85,  // the names' rules of apimachinery and the grammar of image references
		"client/kubeconfig":                   115,
		"client/manifest":                     85,
		"client/printer":                      85,
		"client/rest":                         120,
		"cluster":                             294, // of which 4 are about devices, 4 are the versions of flow control, 3 are for volumes of CSI drivers that replaced plugins, 8 are for pod security, with the types of jobs, 1 the labels of kubelets, and 22 the streams of simulated nodes: SPDY, WebSocket
		"component":                           90,
		"component/controllermanager":         104, // the types of all kinds that controllers read, the parser of schedules
		"component/remote":                    255, // client-go's discovery knows all kinds of the API
		"cni":                                 0,
		"cni/bridge/announce":                 3,  // notices of new files
		"cni/netns":                           1,  // x/sys, to make and enter namespaces
		"cni/plugins":                         32, // libcni and the tracing that it knows
		"conformance":                         220,
		"controllers":                         90,
		"controllers/controllerstest":         180, // the registry and its patches
		"controllers/reconciler":              620, // controller-runtime
		"controllers/statefulset":             100, // podspec
		"cri":                                 0,
		"cri/internal/wire":                   125, // gRPC and the messages of CRI
		"cri/remote":                          125,
		"cri/serve":                           125,
		"cri/streams":                         24, // SPDY and WebSocket
		"dns":                                 70,
		"flowcontrol":                         63,
		"flowcontrol/fairqueuing":             64,
		"flowcontrol/metrics":                 105, // Prometheus' client
		"dns/server":                          76,  // miekg/dns
		"events":                              90,
		"examples":                            442, // of examples/cluster, one for what a log file may grow to
		"examples/initializer":                448, // a cluster, and a kubeconfig's client with informers
		"examples/assets":                     570, // rules for definitions, CEL, as in examples/cluster
		"examples/controller":                 640, // controller-runtime
		"informer":                            80,
		"informer/clientgo":                   125, // the caches of client-go
		"informer/clientgo/factory":           380, // its clientset
		"informer/controllerruntime":          620, // controller-runtime
		"informer/wire":                       120,
		"internal":                            0,
		"internal/nfnetlink":                  1, // x/sys, which has the numbers of the kernel's interface
		"internal/nft":                        1,
		"internal/demo":                       220,
		"internal/upstream/controlplane":      440, // certificates, kubeconfigs, containerd
		"internal/apireference":               90,  // API types
		"internal/boundedcbor":                6,
		"internal/boundedquantity":            8, // the type of quantities
		"internal/boundedyaml":                6,
		"internal/configfile":                 70, // validation's field errors
		"internal/clusterprocess":             220,
		"internal/cronschedule":               1,   // robfig/cron
		"internal/etcdtest":                   160, // etcd's client
		"internal/fakeroot":                   1,   // golang.org/x/sys
		"internal/kubectlargs":                220,
		"internal/leaktest":                   2,   // goleak
		"internal/linear":                     1,   // porcupine
		"internal/nettest":                    2,   // x/sys
		"internal/otlptest":                   125, // gRPC and the messages of OpenTelemetry
		"internal/provider":                   75,  // definitions and unstructured objects
		"internal/quota":                      90,  // the API's types and its reading of pods' resources
		"internal/restclient":                 120,
		"internal/signingrequest":             70,  // the types of requests
		"internal/bootstraptoken":             70,  // secrets
		"internal/strategicpatch":             145, // apimachinery's reading of the tags of types
		"internal/testserver":                 220,
		"internal/testcluster":                301,
		"internal/transcript":                 150,
		"lifecycle":                           0,
		"storage/tracing":                     9,   // OpenTelemetry's interfaces
		"tracing":                             240, // its exporter, with gRPC
		"kubelet":                             90,
		"kubelet/cgroup":                      100, // the library of cgroups
		"kubelet/prober":                      180, // gRPC and its health protocol
		"kubelet/volume/atomic":               1,   // x/sys
		"kubelet/deviceplugin":                185, // gRPC, the API's types
		"kubelet/deviceplugin/internal":       2,   // upstream's text of values for checksums
		"kubelet/dra":                         180, // gRPC, the API's types
		"kubelet/internal/registrars":         115, // gRPC
		"kubelet/volume/csi":                  240, // gRPC, CSI's own package, the API's types
		"kubelet/volume/internal":             1,
		"kubelet/logs":                        3,
		"node":                                65,
		"node/bundled":                        300,
		"node/certificates":                   70,
		"node/containerd":                     150, // the CRI API, gRPC and libcni
		"node/filelock":                       0,
		"node/host":                           270,
		"node/internal":                       560, // a test kit with clients
		"node/kubeletconfig":                  280,
		"node/localvolumes":                   90,
		"node/nodetools":                      0,
		"node/ociimage":                       0,
		"node/remote":                         120,
		"pki":                                 0,
		"networkpolicy":                       85,
		"overlay":                             85,
		"proxy":                               85,
		"podspec":                             100,
		"podspec/critical":                    70, // API types
		"podspec/features":                    70,
		"podspec/restart":                     70,
		"registry":                            100,
		"registry/apiextensions":              460, // upstream's rules for definitions: CEL, and the clients of webhooks
		"registry/custom":                     465,
		"registry/direct":                     150, // apimachinery's reading of the tags of types, for patches
		"registry/request":                    150,
		"scheduler":                           90,
		"scheduler/devices/structured":        235, // upstream's allocator, CEL
		"scheduler/whatif/load":               105, // apimachinery's decoding
		"storage":                             0,
		"storage/etcd":                        160, // etcd's client, gRPC
		"storage/internal":                    1,   // the B-tree of k8s.io/utils, as the two below
		"storage/memory":                      1,
		"storage/wal":                         1,

		// Upstream's rules for definitions and schemas.
		"cluster/customresources":              550,
		"controllers/customresourcedefinition": 460,
		"examples/cluster":                     700,

		// The types of metrics and of kubelets' summaries.
		"cluster/resourcemetrics": 296,

		// miekg/dns
		"cluster/clusterdns": 300,

		// A cache of rate limiters.
		"cluster/admissionconfig": 304,

		// Client-go's REST client, and the types of audit events.
		"cluster/auditconfig": 305,

		// The types of APIServices, and client-go's headers for proxies.
		"cluster/aggregation": 299,

		// Expressions in CEL, in authentication.
		"cluster/authenticationconfig": 400,
		"cluster/authorizationconfig":  400,
		"authz/webhook/cel":            240,
		"authz/webhook/remote":         125, // client-go's connections
		"authn/webhook/remote":         125,
		"internal/jsonpost":            125,

		// Upstream's evaluation of expressions in CEL.
		"admission/internal/expressions": 270,
		"admission/policy/cel":           270,
		"admission/policy/typecheck":     290,
		"admission/webhook/cel":          270,
		"registry/resource/selectors":    270,
		"cluster/policies":               397,
		"cluster/admit":                  600, // all of that, and custom resources
		"examples/admit":                 600,
		"cluster/webhooks":               396,

		// All of it, and controller-runtime's installation of definitions and webhooks.
		"envtest": 874,

		// The serializer of configuration files; gRPC, for KMS plugins; x/crypto.
		"storage/encryption/config":    210,
		"storage/encryption/kms":       160,
		"storage/encryption/secretbox": 4,
	}
}

// leaves lists heavy or third-party imports, by prefix, with the only packages that may import them; one that ends in
// "/" stands for all packages below it. Tests may import anything.
func leaves() map[string][]string {
	return map[string][]string{
		"k8s.io/kubernetes": {}, // only the conformance module knows upstream's implementation
		"k8s.io/apiserver": { // the types of policies and events; CEL
			"admission/internal/expressions", "admission/policy/cel", "admission/policy/typecheck", "admission/webhook/cel", "apiserver/audit", "apiserver/audit/webhook", "authn/oidc/cel", "authz/webhook/cel", "registry/apiextensions",
			"registry/custom", "registry/resource/selectors",
			"cluster/admit", // is told the annotations of events
		},
		// The compiler of selectors, names and counts of what is allocated, the allocator.
		"k8s.io/dynamic-resource-allocation": {"registry/resource/selectors", "kubelet/dra", "scheduler/devices", "scheduler/devices/structured"},
		"k8s.io/apiextensions-apiserver": {
			"registry/apiextensions", "registry/custom", "registry/custom/review", "controllers/customresourcedefinition", "cluster/customresources",
			"cluster/admit", // waits until definitions are served
			"envtest", "internal/provider", "bench/peers",
		},
		"k8s.io/kube-aggregator":        {"registry/apiregistration", "apiserver/aggregator", "controllers/apiservice", "cluster/aggregation"}, // the types of APIServices
		"k8s.io/kube-openapi":           {"admission/policy/typecheck", "apiserver/aggregator", "registry/apiextensions", "registry/custom"},
		"k8s.io/klog/v2":                {},
		"k8s.io/pod-security-admission": {"admission/podsecurity"},
		"go.etcd.io":                    {"storage/etcd", "internal/etcdtest"},
		"github.com/robfig/cron/v3":     {"internal/cronschedule"},
		// Aliases multiply the size of a text, so only one package follows them, within limits.
		"sigs.k8s.io/yaml":                  {"internal/boundedyaml"},
		"go.yaml.in":                        {"internal/boundedyaml"},
		"gopkg.in/yaml.v2":                  {},
		"gopkg.in/yaml.v3":                  {},
		"k8s.io/apimachinery/pkg/util/yaml": {},
		// These accept YAML where JSON is meant. Packages that import them must check with boundedyaml first.
		"k8s.io/apimachinery/pkg/runtime/serializer": {"storage/encryption/config", "internal/boundedcbor", "internal/restclient", "internal/transcript", "scheduler/whatif/load"},
		"k8s.io/client-go/tools/clientcmd":           {"client/kubeconfig"},
		"github.com/container-storage-interface":     {"kubelet/volume/csi"},
		"google.golang.org/grpc":                     {"cri/internal/wire", "cri/remote", "cri/serve", "node/containerd", "internal/otlptest", "kubelet/deviceplugin", "kubelet/internal/registrars", "kubelet/prober", "kubelet/volume/csi", "storage/encryption/kms", "storage/encryption/kms/kmstest", "storage/etcd"},
		"go.opentelemetry.io":                        {"apiserver/tracing", "internal/otlptest", "storage/tracing", "tracing"},
		"github.com/miekg/dns":                       {"dns/server"},
		"github.com/vishvananda":                     {"overlay/rtnetlink"},
		"sigs.k8s.io/controller-runtime":             {"controllers/reconciler", "envtest", "examples/controller", "informer/controllerruntime"},
		"github.com/google/go-cmp":                   {"admission/admissiontest"},
		"testing":                                    {"admission/admissiontest", "admission/initialresources/historytest", "cluster/admit/admittest", "internal/", "node/containerd/containerdtest", "node/internal/", "storage/storagetest", "authn/authntest", "authz/authztest", "cri/runtimetest", "cni/cnitest", "client/clienttest", "controllers/controllerstest", "informer/informertest", "registry/registrytest", "proxy/proxytest", "networkpolicy/policytest", "flowcontrol/flowcontroltest"},
	}
}

type pkg struct {
	ImportPath, Dir, Doc string
	GoFiles              []string
	Imports, Deps        []string
	Standard             bool
}

// tree holds this module's packages by path below its root, and their import closures.
func tree(t *testing.T) (own map[string]pkg, all map[string]pkg) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Deps,Standard", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	own, all = map[string]pkg{}, map[string]pkg{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all[p.ImportPath] = p
		if rel, ok := strings.CutPrefix(p.ImportPath, module+"/"); ok {
			own[rel] = p
			touch(t, p)
		}
	}
	return own, all
}

// touch tells the go command what this test depends on, so that it does not use a cached result after a file has
// changed.
func touch(t *testing.T, p pkg) {
	t.Helper()
	for _, name := range append([]string{"", ".."}, p.GoFiles...) {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestTree(t *testing.T) {
	own, all := tree(t)
	for _, rows := range []map[string][]string{siblings(), behind()} {
		for rel := range rows {
			if _, ok := own[rel]; !ok && !slices.ContainsFunc(sorted(own), func(p string) bool { return strings.HasPrefix(p, rel+"/") }) {
				t.Errorf("there is no %s, which has a row", rel)
			}
		}
	}
	for _, rel := range sorted(own) {
		p := own[rel]
		if p.Doc == "" {
			t.Errorf("%s has no package documentation", rel)
		}
		checkSiblings(t, rel, p)
		checkLeaves(t, rel, p)
		checkBehind(t, rel, p)
		foreign := 0
		for _, dep := range p.Deps {
			if !all[dep].Standard && !strings.HasPrefix(dep, module+"/") {
				foreign++
			}
		}
		if limit, ok := limitOf(rel); !ok {
			t.Errorf("%s is built from %d foreign packages and has no limit here", rel, foreign)
		} else if foreign > limit {
			t.Errorf("%s is built from %d foreign packages, at most %d allowed", rel, foreign, limit)
		}
	}
}

func checkSiblings(t *testing.T, rel string, p pkg) {
	t.Helper()
	top, _, _ := strings.Cut(rel, "/")
	allowed, ok := nearest(siblings(), rel)
	if !ok {
		t.Errorf("%s: no row says what it may import", rel)
	}
	for _, path := range p.Imports {
		if top == "examples" && strings.HasPrefix(path, module+"/internal/") {
			t.Errorf("%s imports %s: whoever copies an example cannot", rel, path)
		}
	}
	if slices.Contains(allowed, everything) {
		return
	}
	for _, path := range p.Imports {
		sibling, ours := strings.CutPrefix(path, module+"/")
		if !ours || sibling == top || strings.HasPrefix(sibling, top+"/") {
			continue
		}
		if !slices.ContainsFunc(append(anyone(), allowed...), func(a string) bool { return covers(a, sibling) }) {
			t.Errorf("%s must not import %s", rel, sibling)
		}
	}
}

func checkBehind(t *testing.T, rel string, p pkg) {
	t.Helper()
	allowed, ok := behind()[rel]
	for _, dep := range p.Deps {
		if own, ours := strings.CutPrefix(dep, module+"/"); ok && ours && !slices.Contains(allowed, own) && !slices.Contains(anyone(), own) {
			t.Errorf("%s must not be built from %s", rel, own)
		}
	}
}

func checkLeaves(t *testing.T, rel string, p pkg) {
	t.Helper()
	for prefix, users := range leaves() {
		for _, path := range p.Imports {
			if path != prefix && !strings.HasPrefix(path, prefix+"/") {
				continue
			}
			if !slices.ContainsFunc(users, func(u string) bool { return covers(u, rel) }) {
				t.Errorf("%s must not import %s", rel, path)
			}
		}
	}
}

// covers reports whether an entry applies to a package: it is the package's path or, with a trailing slash, a path
// above it.
func covers(entry, rel string) bool {
	return rel == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(rel, entry)
}

func limitOf(rel string) (int, bool) { return nearest(limits(), rel) }

// nearest returns the row of a package, or of the nearest path above it.
func nearest[T any](rows map[string]T, rel string) (row T, ok bool) {
	for at := rel; ; {
		if row, ok = rows[at]; ok {
			return row, true
		}
		cut := strings.LastIndex(at, "/")
		if cut < 0 {
			return row, false
		}
		at = at[:cut]
	}
}

func sorted(own map[string]pkg) []string {
	var names []string
	for name := range own {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
