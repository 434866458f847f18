package machine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/machine"
)

// root makes the files of a machine.
func root(t testing.TB, files map[string]string) machine.Reader {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return machine.Reader{Root: dir}
}

func small() map[string]string {
	return map[string]string{
		"proc/meminfo":                  "MemTotal:        8000 kB\nMemFree:  3000 kB\nInactive(file):     1000 kB\nAnonPages: 500 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\nHugePages_Total: 3\n",
		"proc/stat":                     "cpu  100 10 50 9999 77 1 2 3 40 5\ncpu0 1 1 1\n",
		"proc/loadavg":                  "0.05 0.03 0.00 1/123 4567\n",
		"proc/vmstat":                   "pgfault 42\npgmajfault 7\n",
		"proc/net/dev":                  "Inter-|   Receive  |  Transmit\n face |bytes    packets errs\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0: 1000 5 2 0 0 0 0 0 2000 6 3 0 0 0 0 0\n",
		"proc/sys/kernel/pid_max":       "32768\n",
		"proc/sys/kernel/threads-max":   "9000\n",
		"proc/sys/kernel/osrelease":     "6.1.0-test\n",
		"sys/devices/system/cpu/online": "0-2,5\n",
		"etc/machine-id":                "0123\n", "proc/sys/kernel/random/boot_id": "4567\n",
		"etc/os-release": "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "4\n",
	}
}

func TestRead(t *testing.T) {
	m, err := root(t, small()).Read()
	if err != nil {
		t.Fatal(err)
	}
	swap := int64(100 * 1024)
	want := machine.Machine{
		CPUs: 4, Memory: 8000 * 1024, Swap: 100 * 1024, MaxProcesses: 9000,
		Hugepages: map[uint64]uint64{2 << 20: 8 << 20},
		Info: corev1.NodeSystemInfo{
			MachineID: "0123", SystemUUID: "0123", BootID: "4567", KernelVersion: "6.1.0-test",
			OSImage: "Debian GNU/Linux 12 (bookworm)", OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
			Swap: &corev1.NodeSwapStatus{Capacity: &swap},
		},
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, not %+v", m, want)
	}
	if _, err := (machine.Reader{Root: t.TempDir()}).Read(); !errors.Is(err, machine.ErrUnreadable) {
		t.Errorf("an empty machine: %v", err)
	}
}

func TestUsage(t *testing.T) {
	now := time.Unix(1000, 0)
	got := root(t, small()).Usage(now)
	want := machine.Usage{
		At: now, CPU: uint64(166 * 10 * time.Millisecond),
		Memory: cri.MemoryUsage{
			At: now, Usage: 5000 * 1024, WorkingSet: 4000 * 1024, Available: 4000 * 1024, RSS: 500 * 1024,
			PageFaults: 42, MajorPageFaults: 7,
		},
		SwapUsed: 60 * 1024, SwapAvailable: 40 * 1024, Processes: 123,
		Network: []cri.InterfaceUsage{{Name: "eth0", RxBytes: 1000, RxErrors: 2, TxBytes: 2000, TxErrors: 3}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func TestCapacity(t *testing.T) {
	m, err := root(t, small()).Read()
	if err != nil {
		t.Fatal(err)
	}
	m.Memory = 100 << 20
	capacity := m.Capacity(110, 1<<30)
	reserved := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("20Mi")}
	evicted := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("10Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("2Gi")}
	for _, test := range []struct {
		name                  corev1.ResourceName
		capacity, allocatable string
	}{
		{corev1.ResourceCPU, "4", "3900m"},
		{corev1.ResourceMemory, "100Mi", "62Mi"}, // and 8Mi in huge pages
		{corev1.ResourceEphemeralStorage, "1Gi", "0"},
		{corev1.ResourcePods, "110", "110"},
		{"hugepages-2Mi", "8Mi", "8Mi"},
	} {
		if q := capacity[test.name]; q.Cmp(resource.MustParse(test.capacity)) != 0 {
			t.Errorf("capacity of %s: %s", test.name, q.String())
		}
		allocatable := machine.Allocatable(capacity, reserved, evicted)
		if q := allocatable[test.name]; q.Cmp(resource.MustParse(test.allocatable)) != 0 {
			t.Errorf("allocatable %s: %s", test.name, q.String())
		}
	}
}

// TestThisMachine: the values make sense on the machine that runs the test.
func TestThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the files are Linux's")
	}
	m, err := machine.Reader{}.Read()
	if err != nil {
		t.Fatal(err)
	}
	use := machine.Reader{}.Usage(time.Now())
	if m.CPUs < 1 || m.Info.KernelVersion == "" || m.Info.BootID == "" || m.MaxProcesses == 0 {
		t.Errorf("%+v", m)
	}
	if use.CPU == 0 || use.Processes == 0 || use.Memory.WorkingSet == 0 || use.Memory.WorkingSet+use.Memory.Available != m.Memory {
		t.Errorf("%+v of %+v", use, m)
	}
	disk, err := machine.Disk(t.TempDir())
	if err != nil || disk.Capacity == 0 || disk.Available > disk.Capacity || disk.Used > disk.Capacity || disk.InodesFree > disk.Inodes {
		t.Errorf("%+v, %v", disk, err)
	}
	if _, err := machine.Disk(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, machine.ErrUnreadable) {
		t.Errorf("a missing directory: %v", err)
	}
}

func Example() {
	m := machine.Machine{CPUs: 2, Memory: 4 << 30}
	capacity := m.Capacity(110, 0)
	left := machine.Allocatable(capacity, corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")})
	fmt.Println(capacity.Cpu(), capacity.Memory(), left.Memory())
	// Output: 2 4Gi 3996Mi
}

func FuzzRead(f *testing.F) {
	f.Add("MemTotal: 1 kB\n", "0-3,8", "cpu 1 2 3")
	f.Add("MemTotal:", "0-", "cpu")
	f.Fuzz(func(t *testing.T, meminfo, cpus, stat string) {
		r := root(t, map[string]string{"proc/meminfo": meminfo, "sys/devices/system/cpu/online": cpus, "proc/stat": stat})
		if m, err := r.Read(); err == nil && m.CPUs < 1 {
			t.Errorf("%d CPUs in %q", m.CPUs, cpus)
		}
		r.Usage(time.Time{})
	})
}
