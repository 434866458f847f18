// Package allocation gives out what services must not share: cluster IPs and node ports.
//
// What is taken is kept where every server on the same store sees it and only one can win: an
// IPAddress object for each cluster IP (KEP-1880), and one RangeAllocation record for all node
// ports, both under the keys and in the form of upstream. TakeAddress chooses in the networks of
// the ServiceCIDRs; Ports is the record of node ports. What is given to those who ask for any one
// comes from the upper band of a range first, so that the lower band stays for those who ask for
// a certain one (KEP-3070, KEP-3668). Where a search begins follows from a seed, so that runs with
// the same seeds give out the same.
//
// A crash between taking and using leaks. Repair finds what nobody uses, and what is used but not
// taken, and puts it right; it never frees what is in use or about to be.
//
// Errors are the sentinels of this package, with upstream's texts, and those of the store and
// the registry. Ports and Repair are safe for concurrent use; a Range is a value.
package allocation
