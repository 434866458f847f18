package machine_test

import (
	"maps"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/kubelet/machine"
)

// with is the small machine with other files; an empty one is missing.
func with(t *testing.T, files map[string]string) machine.Reader {
	t.Helper()
	all := small()
	for name, data := range files {
		all[name] = data
		if data == "" {
			delete(all, name)
		}
	}
	return root(t, all)
}

// An invalid list of CPUs is ignored: Go's number of CPUs counts instead.
func TestCPUs(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-3": 4, "0,2-3,7": 4, "5-5": 1, "0-65536": 65537,
		"": runtime.NumCPU(), "x": runtime.NumCPU(), "0-": runtime.NumCPU(), "0-x": runtime.NumCPU(),
		"3-2": runtime.NumCPU(), "5-0": runtime.NumCPU(), "0-65537": runtime.NumCPU(), "65536-131073": runtime.NumCPU(), "0,": runtime.NumCPU(),
		"65530-65540": 11, "0-9,x": runtime.NumCPU(), "70000-70001": 2,
	} {
		m, err := with(t, map[string]string{"sys/devices/system/cpu/online": list}).Read()
		if err != nil || m.CPUs != want {
			t.Errorf("%q are %d, %v", list, m.CPUs, err)
		}
	}
}

// The smaller of two limits counts, and a missing one is no limit.
func TestMaxProcesses(t *testing.T) {
	for _, tt := range []struct {
		pids, threads string
		want          uint64
	}{
		{"100", "50", 50},
		{"50", "100", 50},
		{"100", "", 100},
		{"100", "0", 100},
		{"", "50", 50},
		{"0", "50", 50},
		{"many", "50", 50},
		{"100", "many", 100},
		{"", "", 0},
		{"18446744073709551616", "", 0},
	} {
		m, err := with(t, map[string]string{"proc/sys/kernel/pid_max": tt.pids, "proc/sys/kernel/threads-max": tt.threads}).Read()
		if err != nil || m.MaxProcesses != tt.want {
			t.Errorf("of %q and %q: %d, %v", tt.pids, tt.threads, m.MaxProcesses, err)
		}
	}
}

func TestMemory(t *testing.T) {
	const odd = "no colon\nMemTotal\nEmpty:\nMemFree: lots kB\nMemFree: 18446744073709551616\nMemTotal: 4096\nSwapTotal: 0 kB\nInactive(file): 7 pages\nAnonPages: 3 kB\n"
	r := with(t, map[string]string{"proc/meminfo": odd})
	m, err := r.Read()
	if err != nil || m.Memory != 4096 || m.Swap != 0 || m.Info.Swap != nil {
		t.Errorf("%+v, %v", m, err)
	}
	use := r.Usage(time.Time{})
	if use.Memory.Usage != 4096 || use.Memory.WorkingSet != 4089 || use.Memory.RSS != 3*1024 || use.Memory.Available != 7 {
		t.Errorf("%+v", use.Memory)
	}
	// Numbers read one after the other may be inconsistent.
	use = with(t, map[string]string{"proc/meminfo": "MemTotal: 4\nMemFree: 5\nInactive(file): 1\nSwapTotal: 3\nSwapFree: 3"}).Usage(time.Time{})
	if use.Memory.Usage != 0 || use.Memory.WorkingSet != 0 || use.Memory.Available != 4 || use.SwapUsed != 0 || use.SwapAvailable != 3 {
		t.Errorf("%+v", use)
	}
}

func TestHugepages(t *testing.T) {
	const dir = "sys/kernel/mm/hugepages/"
	read := func(files map[string]string) map[uint64]uint64 {
		m, err := with(t, files).Read()
		if err != nil {
			t.Fatal(err)
		}
		return m.Hugepages
	}
	got := read(map[string]string{
		dir + "hugepages-1048576kB/nr_hugepages": "1", dir + "hugepages-64kB/free_hugepages": "9",
		dir + "2048kB/nr_hugepages": "5", dir + "4/nr_hugepages": "5", dir + "hugepages-manykB/nr_hugepages": "5",
	})
	if want := map[uint64]uint64{1 << 30: 1 << 30, 2 << 20: 8 << 20, 64 << 10: 0}; !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	if got := read(map[string]string{dir + "hugepages-2048kB/nr_hugepages": ""}); got != nil {
		t.Errorf("a machine without: %v", got)
	}
}

// Unreadable values count as zero.
func TestUsageOfOddFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		files            map[string]string
		cpu              time.Duration
		processes        uint64
		faults, majors   uint64
		interfaces, sent int
	}{
		"as usual":              {nil, 1660 * time.Millisecond, 123, 42, 7, 1, 2000},
		"nothing":               {map[string]string{"proc/stat": "", "proc/loadavg": "", "proc/vmstat": "", "proc/net/dev": ""}, 0, 0, 0, 0, 0, 0},
		"only blanks":           {map[string]string{"proc/stat": "  \n1 2 3"}, 0, 123, 42, 7, 1, 2000},
		"another line":          {map[string]string{"proc/stat": "cpu0 1 2 3\n"}, 0, 123, 42, 7, 1, 2000},
		"few fields":            {map[string]string{"proc/stat": "cpu 1 2 3\n"}, 60 * time.Millisecond, 123, 42, 7, 1, 2000},
		"not a number":          {map[string]string{"proc/stat": "cpu 1 x -3 9 1 18446744073709551616 2\n"}, 30 * time.Millisecond, 123, 42, 7, 1, 2000},
		"short load":            {map[string]string{"proc/loadavg": "0 0 0\n"}, 1660 * time.Millisecond, 0, 42, 7, 1, 2000},
		"just enough":           {map[string]string{"proc/loadavg": "0 0 0 1/9\n"}, 1660 * time.Millisecond, 9, 42, 7, 1, 2000},
		"load average of words": {map[string]string{"proc/loadavg": "0 0 0 1/x 5\n"}, 1660 * time.Millisecond, 0, 42, 7, 1, 2000},
		"too many":              {map[string]string{"proc/loadavg": "0 0 0 1/18446744073709551616 5\n"}, 1660 * time.Millisecond, 0, 42, 7, 1, 2000},
		"odd faults":            {map[string]string{"proc/vmstat": "pgfault\npgfault 3\npgmajfault 18446744073709551616\n pgmajfault\n"}, 1660 * time.Millisecond, 123, 3, 0, 1, 2000},
		"odd interfaces":        {map[string]string{"proc/net/dev": "1 2 3 4 5 6 7 8 9 10 11 12\n a: 1 2 3 4 5 6 7 8 9 10\n b: 1 2 3 4 5 6 7 8 9 10 11\n lo: 1 2 3 4 5 6 7 8 9 10 11"}, 1660 * time.Millisecond, 123, 42, 7, 1, 9},
	} {
		got := with(t, tt.files).Usage(time.Time{})
		sent := 0
		for _, i := range got.Network {
			sent += int(i.TxBytes)
		}
		if got.CPU != uint64(tt.cpu) || got.Processes != tt.processes || got.Memory.PageFaults != tt.faults ||
			got.Memory.MajorPageFaults != tt.majors || len(got.Network) != tt.interfaces || sent != tt.sent {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestInterfaceWithoutColumnsToSpare(t *testing.T) {
	got := with(t, map[string]string{"proc/net/dev": "b: 1 2 3 4 5 6 7 8 9 10 11"}).Usage(time.Time{}).Network
	if len(got) != 1 || got[0].Name != "b" || got[0].RxBytes != 1 || got[0].RxErrors != 3 || got[0].TxBytes != 9 || got[0].TxErrors != 11 {
		t.Errorf("%+v", got)
	}
}

func TestCapacityWithoutStorage(t *testing.T) {
	capacity := machine.Machine{CPUs: 1, Memory: 1}.Capacity(5, 0)
	if _, ok := capacity[corev1.ResourceEphemeralStorage]; ok || len(capacity) != 3 {
		t.Errorf("%v", capacity)
	}
}

// Results are never negative, and the machine's huge pages are subtracted from its memory.
func TestAllocatableAtZero(t *testing.T) {
	of := func(pairs ...string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for name, tt := range map[string]struct{ capacity, reserved, want corev1.ResourceList }{
		"no memory":           {of("cpu", "2", "hugepages-2Mi", "4Mi"), of("cpu", "500m"), of("cpu", "1500m", "hugepages-2Mi", "4Mi")},
		"all reserved":        {of("cpu", "2", "memory", "3"), of("cpu", "2", "memory", "3"), of("cpu", "0", "memory", "0")},
		"more reserved":       {of("cpu", "2", "memory", "3"), of("cpu", "3", "memory", "4"), of("cpu", "0", "memory", "0")},
		"all huge":            {of("memory", "4Mi", "hugepages-2Mi", "4Mi"), nil, of("memory", "0", "hugepages-2Mi", "4Mi")},
		"all huge, reserved":  {of("memory", "4Mi", "hugepages-2Mi", "4Mi"), of("memory", "1Mi"), of("memory", "0", "hugepages-2Mi", "4Mi")},
		"huge pages reserved": {of("memory", "9Mi", "hugepages-2Mi", "4Mi"), of("hugepages-2Mi", "2Mi"), of("memory", "5Mi", "hugepages-2Mi", "2Mi")},
	} {
		got := machine.Allocatable(tt.capacity, tt.reserved)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %v", name, got)
		}
		for key, q := range tt.want {
			if left, ok := got[key]; !ok || left.Cmp(q) != 0 {
				t.Errorf("%s: %s of %s", name, left.String(), key)
			}
		}
	}
}
