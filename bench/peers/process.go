package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// errProc means that the system has no /proc.
var errProc = errors.New("/proc, which Linux has, is needed to measure")

// tick is the unit of CPU time in /proc, the same on all machines that Go runs on.
const tick = 10 * time.Millisecond

// cpuOf returns the CPU time that processes have used so far.
func cpuOf(processes []int) (time.Duration, error) {
	var total time.Duration
	for _, pid := range processes {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errProc, err)
		}
		used, err := cpuIn(data)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// cpuIn reads user and system time from /proc/PID/stat. The program's name may contain anything.
func cpuIn(stat []byte) (time.Duration, error) {
	const user, system = 11, 12 // after the name
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) <= system {
		return 0, fmt.Errorf("%w: stat says %q", errProc, stat)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: stat says %q: %w", errProc, stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// residentOf returns the resident memory of processes.
func residentOf(processes []int) (int64, error) {
	var total int64
	for _, pid := range processes {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errProc, err)
		}
		kib, err := residentIn(data)
		if err != nil {
			return 0, err
		}
		total += kib << 10
	}
	return total, nil
}

// residentIn reads kibibytes from /proc/PID/status.
func residentIn(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		}
	}
	return 0, fmt.Errorf("%w: status does not tell the resident memory", errProc)
}
