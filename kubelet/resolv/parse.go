package resolv

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/keelson-dev/keelson/cri"
)

// maxFile is the maximum size of a resolv.conf in bytes.
const maxFile = 10 << 20

// Parse reads a resolv.conf: all nameservers, the last search line, and all options; the last option of a name counts.
func Parse(r io.Reader) (cri.DNS, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return cri.DNS{}, err
	}
	if len(data) > maxFile {
		return cri.DNS{}, fmt.Errorf("a resolv.conf of more than %d bytes", maxFile)
	}
	var dns cri.DNS
	var failed []error
	for line := range strings.SplitSeq(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) < 2 {
				failed = append(failed, errors.New("nameserver list is empty "))
				continue
			}
			dns.Servers = append(dns.Servers, fields[1])
		case "search":
			dns.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					dns.Searches = append(dns.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case "options":
			dns.Options = mergeOptions(dns.Options, fields[1:])
		}
	}
	if len(failed) > 0 {
		return cri.DNS{}, failed[0]
	}
	return dns, nil
}

// mergeOptions adds options to a list, replacing those with the same names.
func mergeOptions(list, more []string) []string {
	for _, option := range more {
		name, _, _ := strings.Cut(option, ":")
		i := slices.IndexFunc(list, func(o string) bool {
			n, _, _ := strings.Cut(o, ":")
			return n == name
		})
		if i >= 0 {
			list[i] = option
		} else {
			list = append(list, option)
		}
	}
	return list
}

// unique removes duplicates.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
