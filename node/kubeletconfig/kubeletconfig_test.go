package kubeletconfig_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	upstream "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/pinning"
	"github.com/keelson-dev/keelson/kubelet/pinning/memory"
	"github.com/keelson-dev/keelson/node/kubeletconfig"
)

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(header+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEverything: every field that is acted on is in the Config.
func TestEverything(t *testing.T) {
	c, err := kubeletconfig.Open(write(t, `
staticPodPath: /etc/kubernetes/manifests
podLogsDir: /logs
address: 10.0.0.1
port: 10251
tlsCertFile: /server.crt
tlsPrivateKeyFile: /server.key
rotateCertificates: true
serverTLSBootstrap: true
clusterDomain: example.org
clusterDNS: [10.96.0.10, "fd00::a"]
resolvConf: /run/resolv.conf
cgroupRoot: nodes/a
maxPods: 50
podCIDR: 10.64.0.0/24
authentication: {x509: {clientCAFile: /ca.crt}, webhook: {enabled: true, cacheTTL: 0s}, anonymous: {enabled: false}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s}}
imageMinimumGCAge: 3m
imageMaximumGCAge: 48h
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
evictionHard: {memory.available: 300Mi}
evictionSoft: {memory.available: 600Mi}
evictionSoftGracePeriod: {memory.available: 1m}
evictionMinimumReclaim: {memory.available: 1Mi}
evictionPressureTransitionPeriod: 7m
evictionMaxPodGracePeriod: 20
containerLogMaxSize: 5Mi
containerLogMaxFiles: 3
containerLogMonitorInterval: 4s
registerWithTaints: [{key: a, value: b, effect: NoSchedule}]
containerRuntimeEndpoint: unix:///run/containerd.sock
cgroupDriver: cgroupfs
cgroupsPerQOS: true
systemReserved: {cpu: 500m, memory: 512Mi, ephemeral-storage: 1Gi, pid: "100"}
kubeReserved: {cpu: "1"}
reservedSystemCPUs: 0-1
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 5s
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 1, limits: {memory: 1Gi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}
`))
	if err != nil {
		t.Fatal(err)
	}
	o := c.Host
	if o.StaticDir != "/etc/kubernetes/manifests" || o.LogDir != "/logs" || o.CgroupRoot != "/nodes/a/kubepods" || o.DNS.Domain != "example.org" ||
		len(o.DNS.Servers) != 2 || o.DNS.Servers[1] != netip.MustParseAddr("fd00::a") || o.DNS.ResolvConf != "/run/resolv.conf" ||
		!reflect.DeepEqual(o.Taints, []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}}) {
		t.Errorf("the host: %+v", o)
	}
	quantity := resource.MustParse
	if !reflect.DeepEqual(o.Policies, pinning.Settings{
		CPUs: pinning.CPUSettings{
			Policy: "static", Options: map[string]string{"full-pcpus-only": "true"}, Reserved: cpuset.New(0, 1), Period: 5 * time.Second,
		},
		Memory:   pinning.MemorySettings{Policy: "Static", Reserved: []memory.Reservation{{Node: 1, Limits: corev1.ResourceList{"memory": quantity("1Gi")}}}},
		Topology: pinning.TopologySettings{Policy: "restricted", Scope: "pod", Options: map[string]string{"prefer-closest-numa-nodes": "true"}},
	}) {
		t.Errorf("what is pinned: %+v", o.Policies)
	}
	if r := o.Reserved; r.System.Cpu().MilliValue() != 500 || r.System.Memory().Value() != 512<<20 || len(r.System) != 4 || r.Kube.Cpu().Value() != 1 || len(r.Kube) != 1 {
		t.Errorf("what is reserved: %+v", r)
	}
	want, err := eviction.Parse(eviction.Config{
		Hard: map[string]string{"memory.available": "300Mi"}, Soft: map[string]string{"memory.available": "600Mi"},
		SoftGracePeriod: map[string]string{"memory.available": "1m"}, MinimumReclaim: map[string]string{"memory.available": "1Mi"},
	})
	if err != nil || !reflect.DeepEqual(o.Upkeep.Thresholds, want) || o.Upkeep.Transition != 7*time.Minute || o.Upkeep.MaxGrace != 20 {
		t.Errorf("eviction: %+v", o.Upkeep)
	}
	if p := o.Upkeep.Images; p.High != 70 || p.Low != 60 || p.MinAge != 3*time.Minute || p.MaxAge != 48*time.Hour {
		t.Errorf("images: %+v", p)
	}
	if l := o.Upkeep.Logs; l.MaxSize != 5<<20 || l.MaxFiles != 3 || l.Period != 4*time.Second {
		t.Errorf("logs: %+v", l)
	}
	if pods := c.Capacity[corev1.ResourcePods]; pods.Value() != 50 || len(c.PodCIDRs) != 1 || c.PodCIDRs[0].String() != "10.64.0.0/24" ||
		c.Endpoint != "unix:///run/containerd.sock" || !c.RotateCertificates {
		t.Errorf("got %+v", c)
	}
	if s := c.Server; s != (kubeletconfig.Server{
		Address: netip.MustParseAddr("10.0.0.1"), Port: 10251, ClientCA: "/ca.crt", Certificate: "/server.crt", Key: "/server.key", Bootstrap: true,
	}) {
		t.Errorf("the server: %+v", s)
	}
}

// TestDefaults: what a file leaves out is upstream's default.
func TestDefaults(t *testing.T) {
	c, err := kubeletconfig.Open(write(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	thresholds, err := eviction.Parse(eviction.Default())
	if err != nil || !reflect.DeepEqual(c.Host.Upkeep.Thresholds, thresholds) {
		t.Errorf("eviction: %+v", c.Host.Upkeep)
	}
	if p := c.Host.Upkeep.Images; p.High != 85 || p.Low != 80 || p.MinAge != 2*time.Minute || p.MaxAge != 0 {
		t.Errorf("images: %+v", p)
	}
	if c.Server != (kubeletconfig.Server{Port: 10250}) || c.Capacity != nil || c.PodCIDRs != nil || c.Host.CgroupRoot != "" {
		t.Errorf("got %+v", c)
	}
	for text, want := range map[string]int{
		"evictionHard: {memory.available: 1Gi}":                                     2, // of the node, and of all pods
		"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true": len(thresholds),
		"evictionHard: {}": 0,
	} {
		if c, err := kubeletconfig.Open(write(t, text)); err != nil || len(c.Host.Upkeep.Thresholds) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	merged := eviction.Default()
	merged.Hard["memory.available"] = "1Gi"
	if thresholds, err = eviction.Parse(merged); err != nil {
		t.Fatal(err)
	}
	c, err = kubeletconfig.Open(write(t, "evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true"))
	if err != nil || !reflect.DeepEqual(c.Host.Upkeep.Thresholds, thresholds) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = kubeletconfig.Open(write(t, "enableServer: false\nresolvConf: ''")); err != nil || !c.Server.Disabled || c.Host.DNS.ResolvConf != "/dev/null" {
		t.Errorf("%+v, %v", c, err)
	}
}

// kubeadm is what kubeadm 1.37 writes, but for what it says about systemd, health and rotation.
const kubeadm = `authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`

func TestKubeadm(t *testing.T) {
	c, err := kubeletconfig.Open(write(t, kubeadm))
	if err != nil || c.Server.ClientCA != "/etc/kubernetes/pki/ca.crt" || !c.RotateCertificates {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestMistakes: what is wrong, and what a node does not do, is told with file, line and field.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"clusterDns: [10.96.0.10]":                             `unknown field "clusterDns"`,
		"clusterDNS: [10.96.0.10, x]":                          `clusterDNS[1]: ParseAddr("x"): unable to parse IP`,
		"address: somewhere":                                   "address: ParseAddr",
		"podCIDR: 10.0.0.0":                                    "podCIDR: netip.ParsePrefix",
		"maxPods: -1":                                          "maxPods: must not be negative",
		"maxPods: many":                                        "maxPods",
		"tlsCertFile: /x":                                      "tlsCertFile: goes together with tlsPrivateKeyFile",
		"authentication: {anonymous: {enabled: true}}":         "authentication.anonymous.enabled: true is not supported",
		"authentication: {webhook: {enabled: false}}":          "authentication.webhook.enabled: false is not supported",
		"authentication: {webhook: {cacheTTL: 1m}}":            "authentication.webhook.cacheTTL: is not supported",
		"authorization: {mode: AlwaysAllow}":                   `authorization.mode: "AlwaysAllow" is not supported`,
		"authorization: {webhook: {cacheAuthorizedTTL: 1m}}":   "authorization.webhook.cacheAuthorizedTTL: is not supported",
		"authorization: {webhook: {cacheUnauthorizedTTL: 1m}}": "authorization.webhook.cacheUnauthorizedTTL: is not supported",
		"evictionHard: {memory: 1Gi}":                          "evictionHard: ",
		"evictionSoft: {memory.available: 1Gi}":                "evictionSoft: ",
		"imageGCHighThresholdPercent: 70":                      "imageGCHighThresholdPercent: imageGCHighThresholdPercent must be above imageGCLowThresholdPercent",
		"imageGCHighThresholdPercent: 80":                      "imageGCHighThresholdPercent: imageGCHighThresholdPercent must be above imageGCLowThresholdPercent, both in the range 0-100: 80, 80",
		"imageGCHighThresholdPercent: 101":                     "imageGCHighThresholdPercent: ",
		"imageGCLowThresholdPercent: -1":                       "imageGCLowThresholdPercent: ",
		"containerLogMaxFiles: 1":                              "containerLogMaxFiles: must be greater than 1",
		"containerLogMaxSize: big":                             "containerLogMaxSize: ",
		"containerLogMaxSize: '0'":                             "containerLogMaxSize: must be positive",
		"cgroupDriver: systemd":                                `cgroupDriver: "systemd" is not supported: cgroups are made here, of the driver cgroupfs`,
		"cgroupsPerQOS: false":                                 "cgroupsPerQOS: false is not supported",
		"nodeStatusMaxImages: 0":                               "nodeStatusMaxImages: 0 is not supported",
		"failSwapOn: true":                                     "failSwapOn: true is not supported: swap is neither looked for nor used",
		"cpuManagerPolicy: most":                               `cpuManagerPolicy: "most" must be one of: "none", "static"`,
		"cpuManagerPolicyOptions: {x: 'true'}":                 `cpuManagerPolicyOptions: unknown CPU Manager Policy option: "x"`,
		"cpuManagerPolicyOptions: {full-pcpus-only: 'true'}":   "cpuManagerPolicyOptions: None policy: received unsupported options=map[full-pcpus-only:true]",
		"cpuManagerReconcilePeriod: -1s":                       "cpuManagerReconcilePeriod: must not be negative",
		"memoryManagerPolicy: static":                          `memoryManagerPolicy: "static" must be one of: "None", "Static"`,
		"reservedMemory: [{limits: {cpu: 1}}]":                 `reservedMemory: the limit type "cpu" for NUMA node 0 is not supported`,
		"reservedMemory: [{limits: {memory: 0}}]":              `reservedMemory: reserved memory may not be zero for NUMA node 0 and resource "memory"`,
		"reservedSystemCPUs: a":                                "reservedSystemCPUs: unable to parse reservedSystemCPUs (--reserved-cpus) a",
		"topologyManagerPolicy: most":                          `topologyManagerPolicy: "most" must be one of: "none", "best-effort", "restricted", "single-numa-node"`,
		"topologyManagerScope: node":                           `topologyManagerScope: "node" must be one of: "container", "pod"`,
		"topologyManagerPolicyOptions: {x: 'true'}":            `topologyManagerPolicyOptions: unknown Topology Manager Policy option: "x"`,
		"systemReserved: {disk: 1Gi}":                          `systemReserved: cannot reserve "disk" resource`,
		"systemReserved: {memory: much}":                       `systemReserved: failed to parse quantity "much" for "memory" resource`,
		"kubeReserved: {cpu: '-1'}":                            `kubeReserved: resource quantity for "cpu" cannot be negative: -1`,
		"kubeReservedCgroup: /kube":                            "kubeReservedCgroup: ",
		"featureGates: {AllAlpha: true}":                       `featureGates: {"AllAlpha":true} is not supported: features have no gates`,
		"logging: {options: {json: {infoBufferSize: 1Mi}}}":    "logging: ",
		"shutdownGracePeriod: 30s":                             `shutdownGracePeriod: "30s" is not supported`,
		"enforceNodeAllocatable: [pods, system-reserved]":      "enforceNodeAllocatable: ",
		"healthzPort: 10248":                                   "healthzPort: 10248 is not supported: the node's server has /healthz",
		"imageMinimumGCAge: soon":                              `imageMinimumGCAge: time: invalid duration "soon"`,
		"imageMaximumGCAge: -1m":                               "imageMaximumGCAge: must not be negative",
		"registerWithTaints: [{key: a, colour: b}]":            `unknown field "registerWithTaints[0].colour"`,

		"reservedMemory: [{limits: {memory: 1}}, {limits: {memory: 1}}]": `reservedMemory: the reserved memory has a duplicate value for NUMA node 0 and resource "memory"`,
	} {
		path := write(t, text)
		_, err := kubeletconfig.Open(path)
		var found *kubeletconfig.Error
		if !errors.As(err, &found) || found.Path != path || found.Line != 3 || !strings.Contains(err.Error(), fmt.Sprintf("%s:3: ", path)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err := kubeletconfig.Open(write(t, "a: b\nfailSwapOn: true\ncgroupDriver: systemd"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), ":5: cgroupDriver") {
		t.Errorf("two mistakes: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kubeletconfig.Open(other); err == nil || !strings.Contains(err.Error(), "want apiVersion kubelet.config.k8s.io/v1beta1") {
		t.Errorf("another version: %v", err)
	}
	if _, err := kubeletconfig.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestAllFields: every field of upstream's is known, be it acted on or described.
func TestAllFields(t *testing.T) {
	all := reflect.TypeFor[upstream.KubeletConfiguration]()
	for i := range all.NumField() {
		name, _, _ := strings.Cut(all.Field(i).Tag.Get("json"), ",")
		if name == "" {
			continue // the type
		}
		if _, err := kubeletconfig.Open(write(t, name+": null")); err != nil {
			t.Error(err)
		}
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	c, err := kubeletconfig.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Capacity.Pods(), c.Server.Port)
	// Output: 50 10250
}
