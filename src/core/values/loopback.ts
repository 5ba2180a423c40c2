/** Whether a host name always means this machine. */
export function isLoopback(name: string): boolean {
  const host = name.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}
